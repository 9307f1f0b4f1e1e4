"""Views of photographs: another part of the image, in other colours."""

import math

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.training.photographs import LUMA, ColourJitter, CropResize, recolour


def seeded():
    return torch.Generator().manual_seed(0)


def images(count=200, side=16):
    return torch.rand(count, 3, side, side, generator=seeded())


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


def test_whole_image_is_left_alone():
    given = images().contiguous(memory_format=torch.channels_last)
    for view in (CropResize(area=1, ratio=1), ColourJitter(chance=0, grey=0)):
        seen = view(given, seeded())
        assert torch.allclose(seen, given, atol=1e-5)
        assert seen.is_contiguous(memory_format=torch.channels_last)


def changed(given, brightness=0.0, contrast=1.0, saturation=1.0, angle=0.0):
    numbers = torch.tensor([brightness, contrast, saturation, angle])
    return recolour(given, *numbers[:, None].repeat(1, len(given)))


def luma(given):
    return torch.einsum("bchw,c->bhw", given, torch.tensor(LUMA))


def test_each_change_of_colour_does_what_its_name_says():
    given = images(5)
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
    given = images(2000, side=4)
    seen = ColourJitter(grey=0.2)(given, seeded())
    is_grey = (seen - seen.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-3
    assert 0.17 < float(is_grey.float().mean()) < 0.23
    coloured = ColourJitter(grey=0.0)(given, seeded())
    changes = (coloured - given).abs().amax((1, 2, 3)) > 1e-4
    assert 0.77 < float(changes.float().mean()) < 0.83


def test_grey_images_are_understood_and_other_channels_refused():
    # MNIST with views=photographs; a satellite's eight channels have no hue.
    one = images(50)[:, :1]
    seen = ColourJitter(brightness=0, contrast=0.4)(one, seeded())
    assert torch.allclose(seen.mean((2, 3)), one.mean((2, 3)), atol=1e-4)
    with pytest.raises(InputError, match="1 or 3 channels, got 2"):
        ColourJitter()(images(5)[:, :2], seeded())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CropResize(area=0), "area must be a number > 0"),
        (lambda: CropResize(side=0), "side must be >= 1, got 0"),
        (lambda: ColourJitter(hue=0.6), "hue must be a number"),
        (lambda: ColourJitter(contrast=1.5), "contrast must be a number"),
    ],
)
def test_bad_value_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_data_set_brings_views_and_encoder():
    # Photographs would be turned on their heads, as digits are not.
    photo = compose_cell(["dataset=cifar10", "model=probe"]).identity
    digit = compose_cell(["dataset=mnist", "model=probe"]).identity
    assert photo["pretrain.trainer.augment"][0]["_target_"] == "CropResize"
    assert (photo["model.network"], photo["model.network.width"]) == ("ResNet", 16)
    assert digit["pretrain.trainer.augment"][0]["_target_"] == "Affine"
    assert digit["model.network"] == "CNN"
    other = compose_cell(["dataset=cifar10", "model=probe", "encoder=cnn", "views=digits"]).identity
    same = ("model.network", "pretrain.trainer.augment", "pretrain.trainer.epochs")
    assert [other[key] for key in same] == [digit[key] for key in same]
