"""Augmentation: index arithmetic against naive loops, distributions, bytes, layouts."""

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import beta, chisquare, kstest

from labeldp.support.validate import InputError
from labeldp_bench.training import augment
from labeldp_bench.training.augment import Affine, Cutout, Flip, Mixup, PadCrop

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


def test_crop_draws_one_offset_down_and_one_across_per_image():
    """The class passes what it draws to the function that the loop checks."""
    images = batch()
    offsets = torch.randint(9, (5, 2), generator=seeded(3))
    assert torch.equal(PadCrop()(images, seeded(3)), augment.crop(images, offsets, 4))


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


def test_flip_mirrors_half_of_the_images():
    images = positions(20_000, 1, 2)
    mirrored = int((Flip()(images, seeded())[:, 0, 0, 0] == 2).sum())
    assert chisquare([mirrored, 20_000 - mirrored]).pvalue > 0.001


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


def test_erase_equals_a_loop():
    images = batch()
    corners = torch.tensor([[0, 0], [9, 7], [3, 7], [9, 0], [2, 5]])
    expected = images.clone()
    for n, (row, column) in enumerate(corners.tolist()):
        expected[n, :, row : row + 3, column : column + 3] = 7.0
    assert torch.equal(augment.erase(images, corners, 3, 7.0), expected)


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
    images = batch()
    mixed, (partner, weight) = Mixup(1.0, scope="per_sample")(images, seeded())
    for n in range(5):
        expected = weight[n] * images[n] + (1 - weight[n]) * images[partner[n]]
        torch.testing.assert_close(mixed[n], expected)


def test_mixup_partners():
    """T15: reversed pairs an image with its mirror in the batch, the middle one with itself."""
    order = Mixup(8.0, partner="reversed")(batch(), seeded())[1].partner
    assert order.tolist() == [4, 3, 2, 1, 0]
    orders = [Mixup(8.0)(batch(), seeded(s))[1].partner.tolist() for s in range(20)]
    assert all(sorted(order) == list(range(5)) for order in orders)
    assert len(set(map(tuple, orders))) > 10


def test_mixup_scopes():
    per_batch = Mixup(8.0)(batch(50), seeded())[1].weight
    per_sample = Mixup(8.0, scope="per_sample")(batch(50), seeded())[1].weight
    assert per_batch.shape == per_sample.shape == (50,)
    assert per_batch.dtype == per_sample.dtype == torch.float32
    assert (len(per_batch.unique()), len(per_sample.unique())) == (1, 50)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
def test_mixup_weights_follow_beta(alpha):
    """Accepts the right law and rejects its neighbour."""
    images = torch.zeros(4000, 1, 1, 1)
    weight = Mixup(alpha, scope="per_sample")(images, seeded(5))[1].weight.double().numpy()
    assert kstest(weight, beta(alpha, alpha).cdf).pvalue > 0.001
    assert kstest(weight, beta(1.5 * alpha, 1.5 * alpha).cdf).pvalue < 0.001


def test_mixup_of_a_tiny_alpha_is_finite():
    weight = Mixup(1e-3, scope="per_sample")(torch.zeros(1000, 1, 1, 1), seeded())[1].weight
    assert weight.isfinite().all()
    assert 0 <= weight.min() <= weight.max() <= 1


def test_mixed_loss_equals_mixed_targets():
    """Why losses may be mixed: for cross entropy it is the same as mixing one-hot targets."""
    images = batch()
    labels = torch.arange(5)
    _, (partner, weight) = Mixup(1.0, scope="per_sample")(images, seeded())
    logits = torch.randn(5, 5, generator=seeded(1))
    one = F.cross_entropy(logits, labels, reduction="none")
    other = F.cross_entropy(logits, labels[partner], reduction="none")
    targets = weight[:, None] * F.one_hot(labels) + (1 - weight[:, None]) * F.one_hot(
        labels[partner]
    )
    soft = F.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(weight * one + (1 - weight) * other, soft)


def images_of(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", KINDS)
def test_shape_dtype_and_layout_stay(name, channels, dtype, layout):
    images = batch(channels=channels, dtype=dtype, layout=layout)
    before = images.clone()
    result = images_of(KINDS[name](images, seeded()))
    assert (result.shape, result.dtype) == (images.shape, dtype)
    assert result.is_contiguous(memory_format=LAYOUTS[layout])
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", KINDS)
def test_same_seed_same_bytes(name):
    images = batch(count=16)
    first, again, other = (images_of(KINDS[name](images, seeded(s))) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", KINDS)
def test_the_layout_does_not_change_what_is_drawn(name):
    one, other = (images_of(KINDS[name](batch(layout=x), seeded(1))) for x in LAYOUTS)
    assert torch.equal(one, other)


@pytest.mark.parametrize("name", KINDS)
def test_global_random_state_is_not_touched(name):
    """If wrong, augmentation shifts dropout."""
    before = torch.get_rng_state()
    KINDS[name](batch(), seeded())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", KINDS)
def test_one_image(name):
    assert images_of(KINDS[name](batch(count=1), seeded())).shape == (1, 3, 12, 10)


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


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PadCrop(padding=-1), "padding must be >= 0, got -1"),
        (lambda: PadCrop(mode="reflct"), "mode must be .*did you mean reflect"),
        (lambda: PadCrop(max_offset=9), r"max_offset must be in \[0, 8\], got 9"),
        (lambda: PadCrop(10, "reflect")(batch(), seeded()), "padding must be < 10 .*, got 10"),
        (lambda: Cutout(size=0), "size must be >= 1, got 0"),
        (lambda: Cutout(scope="batch"), "scope must be one of per_sample, per_batch"),
        (lambda: Cutout(fill=float("nan")), "fill must be a finite number"),
        (lambda: Cutout(size=11)(batch(), seeded()), "size must leave room in 12 x 10, got 11"),
        (lambda: Cutout(10, skip_last=True)(batch(), seeded()), "size must leave room"),
        (lambda: Mixup(0.0), "mixup.alpha must be a number > 0, got 0.0"),
        (lambda: Mixup(1.0, scope="all"), "mixup.scope must be one of"),
        (lambda: Mixup(1.0, partner="reverse"), "did you mean reversed"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(("trainer.augment: ", "trainer.mixup."))
