"""Augmentation: index arithmetic against naive loops, distributions, bytes, layouts."""

import math

import pytest
import torch
from scipy.stats import beta, chisquare, kstest

from labeldp.support.validate import InputError
from labeldp_bench.training import augment
from labeldp_bench.training.augment import (
    LUMA,
    Affine,
    ColourJitter,
    CropResize,
    Cutout,
    Flip,
    Mixup,
    PadCrop,
    recolour,
)


def pixels(count=200, side=12):
    return torch.rand(count, 3, side, side, generator=seeded())


KINDS = {
    "crop": PadCrop(),
    "crop_reflect": PadCrop(mode="reflect"),
    "crop_ghazi": PadCrop(max_offset=7),
    "flip": Flip(),
    "affine": Affine(),
    "cutout": Cutout(),
    "cutout_batch": Cutout(scope="per_batch", fill=0.5),
    "mixup": Mixup(8.0),
    "mixup_sample": Mixup(0.2, scope="per_sample", partner="reversed"),
}


LAYOUTS = {"NHWC": torch.channels_last, "NCHW": torch.contiguous_format}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(count=5, channels=3, height=12, width=10, layout="NHWC", dtype=torch.float32):
    images = torch.rand(count, channels, height, width, generator=seeded(9)) + 0.1
    return images.to(dtype).to(memory_format=LAYOUTS[layout])


def positions(count, height, width):
    """Images that hold their pixel's number, so that a crop shows where it was taken."""
    grid = torch.arange(1.0, height * width + 1).view(1, 1, height, width)
    return grid.repeat(count, 1, 1, 1)


@pytest.mark.parametrize("mode", ["zeros", "reflect"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_crop_equals_a_loop(mode, layout, padding):
    images = batch(layout=layout)
    offsets = torch.randint(2 * padding + 1, (5, 2), generator=seeded())
    result = augment.crop(images, offsets, padding, mode)
    _, channels, height, width = images.shape
    for n in range(5):
        for i in range(height):
            for j in range(width):
                row = i + int(offsets[n, 0]) - padding
                column = j + int(offsets[n, 1]) - padding
                if mode == "reflect":
                    row = abs(row) if row < height else 2 * (height - 1) - row
                    column = abs(column) if column < width else 2 * (width - 1) - column
                inside = 0 <= row < height and 0 <= column < width
                expected = images[n, :, row, column] if inside else torch.zeros(channels)
                assert torch.equal(result[n, :, i, j], expected)


@pytest.mark.parametrize(("max_offset", "places"), [(None, 9), (7, 8)])
def test_crop_offsets_are_uniform_and_independent(max_offset, places):
    """81 places for padding 4, or Ghazi's 64 that never shift by +4; all equally likely."""
    count = 20_000
    shifted = PadCrop(max_offset=max_offset)(positions(count, 9, 9), seeded(1))
    middle = shifted[:, 0, 4, 4].long() - 1
    seen = torch.bincount(middle, minlength=81).view(9, 9)
    assert seen[:places, :places].sum() == count
    assert chisquare(seen[:places, :places].flatten()).pvalue > 0.001


@pytest.mark.parametrize("layout", LAYOUTS)
def test_flip_equals_a_loop(layout):
    images = batch(layout=layout)
    coins = torch.randint(2, (5,), generator=seeded(3))
    assert set(coins.tolist()) == {0, 1}
    result = Flip()(images, seeded(3))
    for n in range(5):
        for j in range(10):
            source = 9 - j if coins[n] else j
            assert torch.equal(result[n, :, :, j], images[n, :, :, source])


@pytest.mark.parametrize("scope", augment.SCOPES)
@pytest.mark.parametrize("fill", [0.0, -2.5])
def test_cutout_fills_one_square_of_the_stated_area(scope, fill):
    images = batch(count=50)
    result = Cutout(size=4, scope=scope, fill=fill)(images, seeded())
    filled = (result == fill).all(1)
    assert (filled.sum((1, 2)) == 16).all()
    assert (filled.any(1).sum(1) == 4).all()
    assert (filled.any(2).sum(1) == 4).all()
    kept = ~filled[:, None].expand_as(images)
    assert torch.equal(result[kept], images[kept])
    different_places = len(filled.flatten(1).unique(dim=0))
    assert different_places == 1 if scope == "per_batch" else different_places > 10


@pytest.mark.parametrize(("skip_last", "places"), [(False, 25), (True, 24)])
def test_cutout_corners_are_uniform(skip_last, places):
    """Size 8 in 32 pixels: corners 0..24, or 0..23 as in both released codes."""
    result = Cutout(fill=-1.0, skip_last=skip_last)(positions(20_000, 32, 32), seeded(2))
    filled = result[:, 0] == -1
    for axis in (1, 2):
        corner = filled.any(axis).long().argmax(1)
        seen = torch.bincount(corner)
        assert len(seen) == places
        assert chisquare(seen).pvalue > 0.001


def test_mixup_equals_its_formula():
    images = batch(50)
    per_batch = Mixup(8.0)(images, seeded())[1].weight
    mixed, (partner, weight) = Mixup(1.0, scope="per_sample")(images, seeded())
    for n in range(5):
        expected = weight[n] * images[n] + (1 - weight[n]) * images[partner[n]]
        torch.testing.assert_close(mixed[n], expected)
    assert per_batch.shape == weight.shape == (50,)
    assert per_batch.dtype == weight.dtype == torch.float32
    assert (len(per_batch.unique()), len(weight.unique())) == (1, 50)


def test_mixup_partners():
    """T15: reversed pairs an image with its mirror in the batch, the middle one with itself."""
    order = Mixup(8.0, partner="reversed")(batch(), seeded())[1].partner
    assert order.tolist() == [4, 3, 2, 1, 0]
    orders = [Mixup(8.0)(batch(), seeded(s))[1].partner.tolist() for s in range(20)]
    assert all(sorted(order) == list(range(5)) for order in orders)
    assert len(set(map(tuple, orders))) > 10


@pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
def test_mixup_weights_follow_beta(alpha):
    """Accepts the right distribution and rejects its neighbour."""
    images = torch.zeros(4000, 1, 1, 1)
    weight = Mixup(alpha, scope="per_sample")(images, seeded(5))[1].weight.double().numpy()
    assert kstest(weight, beta(alpha, alpha).cdf).pvalue > 0.001
    assert kstest(weight, beta(1.5 * alpha, 1.5 * alpha).cdf).pvalue < 0.001
    tiny = Mixup(alpha / 1000, scope="per_sample")(images, seeded())[1].weight
    assert tiny.isfinite().all() and 0 <= tiny.min() <= tiny.max() <= 1


def images_of(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "channels"), [(torch.float32, 1), (torch.bfloat16, 3)])
@pytest.mark.parametrize("name", KINDS)
def test_shape_dtype_and_layout_stay(name, channels, dtype, layout):
    images = batch(channels=channels, dtype=dtype, layout=layout)
    before = images.clone()
    result = images_of(KINDS[name](images, seeded()))
    assert (result.shape, result.dtype) == (images.shape, dtype)
    assert result.is_contiguous(memory_format=LAYOUTS[layout])
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_drawn_follows_from_the_generator_alone(name):
    """If wrong, augmentation shifts dropout, or depends on the layout in memory."""
    before = torch.get_rng_state()
    first, again, other = (images_of(KINDS[name](batch(16), seeded(s))) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again) and not torch.equal(first, other)
    transposed = images_of(KINDS[name](batch(16, layout="NCHW"), seeded(1)))
    assert torch.equal(first, transposed)
    assert images_of(KINDS[name](batch(1), seeded())).shape == (1, 3, 12, 10)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", KINDS)
def test_a_gpu_gives_the_same_without_waiting(name):
    """The same draws as on the CPU, and nothing that makes the host wait."""
    images = batch()
    moved = images.cuda()
    KINDS[name](moved, seeded())  # first use may wait for the library to load
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = images_of(KINDS[name](moved, seeded()))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(result.cpu(), images_of(KINDS[name](images, seeded())))


def moved_by(matrix):
    return augment.warp(pixels(), torch.tensor([matrix]).repeat(200, 1, 1))


def test_warp_turns_and_shifts():
    # Digits would stand on their heads.
    still = Affine(angle=0, scale=0, shear=0, shift=0)(pixels(), seeded())
    assert torch.allclose(still, pixels(), atol=1e-5)
    quarter = moved_by([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    assert torch.allclose(quarter, pixels().rot90(1, (2, 3)), atol=1e-5)
    one_down = moved_by([[1.0, 0.0, 0.0], [0.0, 1.0, 2 / 12]])
    assert torch.allclose(one_down[:, :, :-1], pixels()[:, :, 1:], atol=1e-5)
    assert torch.allclose(one_down[:, :, -1], pixels()[:, :, -1], atol=1e-5)  # the border goes on


def test_parameters_say_how_far(monkeypatch):
    # Views would differ in nothing, or in everything.
    seen = []
    monkeypatch.setattr(augment, "warp", lambda images, matrices: seen.append(matrices))
    Affine(angle=0.2, scale=0, shear=0, shift=0.1)(pixels(), seeded())
    Affine(angle=0, scale=0.3, shear=0.4, shift=0)(pixels(), seeded())
    turned, scaled = seen
    angle = torch.atan2(turned[:, 1, 0], turned[:, 1, 1])
    assert 0.19 < angle.abs().max() <= 0.2 and abs(float(angle.mean())) < 0.03
    assert 0.19 < turned[:, :, 2].abs().max() <= 0.2  # of a side that is 2 long
    for factors in (scaled[:, 0, 0], scaled[:, 1, 1]):
        assert 0.7 <= factors.min() < 0.72 and 1.28 < factors.max() <= 1.3
    assert 0.38 < scaled[:, 0, 1].abs().max() <= 0.4 and not scaled[:, 1, 0].any()


def places(count, side):
    """Images whose channels hold each pixel's own place, down and across, and 0."""
    step = (torch.arange(side) + 0.5) / side
    down, across = torch.meshgrid(step, step, indexing="ij")
    return torch.stack([down, across, torch.zeros_like(down)]).repeat(count, 1, 1, 1)


def test_crop_is_a_part_of_the_image_of_the_drawn_size():
    # Views would lie outside, or differ in nothing.
    seen = CropResize(area=0.2, ratio=0.75, side=32)(places(2000, 64), seeded())
    assert seen.shape == (2000, 3, 32, 32)
    # From the middle of the first to that of the last pixel are 31 of 32 steps.
    high = (seen[:, 0, -1, 0] - seen[:, 0, 0, 0]) * 32 / 31
    wide = (seen[:, 1, 0, -1] - seen[:, 1, 0, 0]) * 32 / 31
    area = high * wide
    assert 0.17 < area.min() < 0.23 and 0.9 < area.max() <= 1.03
    assert abs(float(area.mean()) - 0.58) < 0.03  # a little below 0.6, where sides are cut to 1
    uncut = (high < 0.97) & (wide < 0.97)
    ratio = (wide / high)[uncut].log()
    assert ratio.abs().max() < math.log(1 / 0.75) + 0.05 and abs(float(ratio.mean())) < 0.02
    centre = seen[:, :2].mean((2, 3))
    assert centre.min() > 0.2 and centre.max() < 0.8 and (centre.mean(0) - 0.5).abs().max() < 0.02
    # Whatever the crop, rows stay rows.
    assert torch.allclose(seen[:, 0], seen[:, 0, :, :1].expand(-1, 32, 32), atol=1e-5)


def changed(given, brightness=0.0, contrast=1.0, saturation=1.0, angle=0.0):
    numbers = torch.tensor([brightness, contrast, saturation, angle])
    return recolour(given, *numbers[:, None].repeat(1, len(given)))


def luma(given):
    return torch.einsum("bchw,c->bhw", given, torch.tensor(LUMA))


def test_each_change_of_colour_does_what_its_name_says():
    given = pixels(5)
    assert torch.allclose(changed(given, brightness=0.3), given + 0.3, atol=1e-5)
    grey = changed(given, saturation=0.0)
    assert torch.allclose(grey, luma(given)[:, None].expand_as(grey), atol=1e-3)
    middle = luma(given).mean((1, 2))[:, None, None, None]
    assert torch.allclose(changed(given, contrast=0.0), middle.expand_as(given), atol=1e-3)
    assert torch.allclose(changed(given, contrast=2.0), 2 * given - middle, atol=1e-3)
    turned = changed(given, angle=1.0)
    assert torch.allclose(luma(turned), luma(given), atol=1e-3)
    assert (turned - given).abs().mean() > 0.1  # the colours themselves do change
    assert torch.allclose(changed(turned, angle=2 * math.pi - 1), given, atol=1e-3)
    assert torch.allclose(changed(grey, angle=1.0), grey, atol=1e-3)  # grey has no hue


def test_chances_say_how_many_images_change():
    given = pixels(2000, 4)
    seen = ColourJitter(grey=0.2)(given, seeded())
    is_grey = (seen - seen.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-3
    assert 0.17 < float(is_grey.float().mean()) < 0.23
    coloured = ColourJitter(grey=0.0)(given, seeded())
    changes = (coloured - given).abs().amax((1, 2, 3)) > 1e-4
    assert 0.77 < float(changes.float().mean()) < 0.83


def test_grey_images_are_understood_and_other_channels_refused():
    # MNIST with views=photographs; a satellite's eight channels have no hue.
    one = pixels(50)[:, :1]
    seen = ColourJitter(brightness=0, contrast=0.4)(one, seeded())
    assert torch.allclose(seen.mean((2, 3)), one.mean((2, 3)), atol=1e-4)
    with pytest.raises(InputError, match="got 2"):
        ColourJitter()(pixels(5)[:, :2], seeded())
