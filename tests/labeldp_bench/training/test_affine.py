"""Affine views: what they are called is what they do."""

import torch

from labeldp_bench.training import augment
from labeldp_bench.training.augment import Affine


def seeded():
    return torch.Generator().manual_seed(0)


def images():
    return torch.rand(200, 3, 12, 12, generator=seeded())


def moved_by(matrix):
    return augment.warp(images(), torch.tensor([matrix]).repeat(200, 1, 1))


def test_warp_turns_and_shifts():
    # Digits would stand on their heads.
    still = Affine(angle=0, scale=0, shear=0, shift=0)(images(), seeded())
    assert torch.allclose(still, images(), atol=1e-5)
    quarter = moved_by([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    assert torch.allclose(quarter, images().rot90(1, (2, 3)), atol=1e-5)
    one_down = moved_by([[1.0, 0.0, 0.0], [0.0, 1.0, 2 / 12]])
    assert torch.allclose(one_down[:, :, :-1], images()[:, :, 1:], atol=1e-5)
    assert torch.allclose(one_down[:, :, -1], images()[:, :, -1], atol=1e-5)  # the border goes on


def test_parameters_say_how_far(monkeypatch):
    # Views would differ in nothing, or in everything.
    seen = []
    monkeypatch.setattr(augment, "warp", lambda images, matrices: seen.append(matrices))
    Affine(angle=0.2, scale=0, shear=0, shift=0.1)(images(), seeded())
    Affine(angle=0, scale=0.3, shear=0.4, shift=0)(images(), seeded())
    turned, scaled = seen
    angle = torch.atan2(turned[:, 1, 0], turned[:, 1, 1])
    assert 0.19 < angle.abs().max() <= 0.2 and abs(float(angle.mean())) < 0.03
    assert 0.19 < turned[:, :, 2].abs().max() <= 0.2  # of a side that is 2 long
    for factors in (scaled[:, 0, 0], scaled[:, 1, 1]):
        assert 0.7 <= factors.min() < 0.72 and 1.28 < factors.max() <= 1.3
    assert 0.38 < scaled[:, 0, 1].abs().max() <= 0.4 and not scaled[:, 1, 0].any()
