"""The fit that `logistic` and the classifier for own labels share."""

import torch

from labeldp.linear import fit_penalised, with_constant
from labeldp.losses import LOSSES


def test_it_is_the_minimum_and_held_out_examples_choose():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 5, generator=generator, dtype=torch.float64)
    y = (x[:, 0] + torch.randn(400, generator=generator) > 0).long()
    inputs, loss = with_constant(x), LOSSES["plain"]
    rows = torch.arange(400)
    split = [(rows[:300], rows[300:])]
    weights, penalty = fit_penalised(inputs, y, loss, 2, [1e-4, 100.0, 0.01], split)
    assert penalty in (1e-4, 0.01)  # at 100 nothing is learnt
    assert weights.dtype == torch.float64
    point = weights.requires_grad_()
    value = loss(inputs @ point, y).mean() + penalty / 2 * point[:-1].square().sum()
    (gradient,) = torch.autograd.grad(value, point)
    assert gradient.abs().max() < 1e-4
    along, same = fit_penalised(inputs, y, loss, 2, [1e-4, 100.0, 0.01], split, along_path=True)
    assert same == penalty
    torch.testing.assert_close(along, weights.detach(), atol=1e-3, rtol=0)  # one minimum
    # With held-out labels that nothing explains the largest penalty must win.
    noise = y.clone()
    noise[300:] = torch.randint(2, (100,), generator=generator)
    assert fit_penalised(inputs, noise, loss, 2, [1e-4, 100.0, 0.01], split)[1] == 100.0


def test_many_examples_of_many_classes_are_taken_in_parts(monkeypatch):
    # 20,000 rows of 2,000 classes took 2.5 s an evaluation, most of it to clear 320 MB anew.
    generator = torch.Generator().manual_seed(0)
    inputs = with_constant(torch.randn(90, 3, generator=generator, dtype=torch.float64))
    y = torch.randint(4, (90,), generator=generator)
    splits = [(torch.arange(60), torch.arange(60, 90))]
    sizes = []

    class Watched(type(LOSSES["plain"])):
        def __call__(self, logits, targets):
            sizes.append(logits.numel())
            return super().__call__(logits, targets)

    whole = fit_penalised(inputs, y, Watched(), 4, [1.0, 0.1], splits)
    assert max(sizes) == 90 * 4
    sizes.clear()
    monkeypatch.setattr("labeldp.linear.AT_ONCE", 100)
    parts = fit_penalised(inputs, y, Watched(), 4, [1.0, 0.1], splits)
    assert max(sizes) == 100
    assert parts[1] == whole[1]
    torch.testing.assert_close(parts[0], whole[0])
