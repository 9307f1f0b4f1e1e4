"""Linear scores and boosted trees on released labels."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from labeldp.losses import LOSSES
from labeldp.mechanisms import NoPrivacy, RandomizedResponse, Rappor
from labeldp.store import LabelStore
from labeldp.supervision import Supervision
from labeldp_bench.models.penalised import fit_penalised, with_constant
from labeldp_bench.models.table_models import BoostedTrees, Logistic
from tests.learning import session

SMALL = {"logistic": Logistic((1e-3,)), "trees": BoostedTrees(stages=3, trees=5)}


def problem(rows=3000, classes=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=generator)
    logits = torch.stack([2 * x[:, each] - each * 0.5 for each in range(classes)], 1)
    return x, torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)


def fitted(model, x, y, mechanism, loss, classes=2):
    store = LabelStore(y, classes).open(mechanism.eps, 0)
    supervision = Supervision.of([store.release(mechanism)], LOSSES[loss])
    return model.fit(x, supervision, session())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("classes", "loss"), [(2, "marginal"), (2, "unbiased"), (3, "bce")])
def test_every_release_can_be_learnt_from(name, classes, loss):
    x, y = problem(classes=classes)
    model = fitted(SMALL[name], x, y, Rappor(4.0), loss, classes)
    probabilities = model.probabilities(x)
    assert probabilities.dtype == torch.float64
    torch.testing.assert_close(probabilities.sum(1), torch.ones(len(x), dtype=torch.float64))
    assert (model.scores(x).argmax(1) == y).float().mean() > (0.7 if classes == 2 else 0.55)


def test_logistic_without_privacy_is_logistic_regression():
    x, y = problem()
    ours = fitted(Logistic((1e-3,)), x, y, NoPrivacy(), "plain").probabilities(x)[:, 1]
    # Ours penalises both classes' weights, each half of their difference.
    points = ((x - x.mean(0)) / x.std(0, correction=0)).numpy()
    theirs = LogisticRegression(C=2 / (1e-3 * len(x)), tol=1e-8).fit(points, y.numpy())
    np.testing.assert_allclose(ours, theirs.predict_proba(points)[:, 1], atol=2e-3)


def test_trees_without_privacy_are_as_good_as_scikit_learns():
    x, y = problem()
    test_x, test_y = problem(seed=1)
    ours = fitted(BoostedTrees(), x, y, NoPrivacy(), "plain")
    theirs = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, early_stopping=False)
    theirs.fit(x.numpy(), y.numpy())
    ours_hits = (ours.scores(test_x).argmax(1) == test_y).double().mean()
    assert ours_hits > theirs.score(test_x.numpy(), test_y.numpy()) - 0.02


@pytest.mark.parametrize("model", [Logistic((1e-3,)), BoostedTrees()])
def test_the_marginal_loss_gives_probabilities_of_true_labels(model):
    # Plain ones are those of released labels, far from the truth at a small eps.
    x, y = problem(rows=8000)
    test_x, _ = problem(seed=1)
    truth = fitted(model, x, y, NoPrivacy(), "plain").probabilities(test_x)
    errors = {
        loss: (fitted(model, x, y, RandomizedResponse(1.0), loss).probabilities(test_x) - truth)
        for loss in ("plain", "marginal")
    }
    assert errors["marginal"].abs().mean() < 0.85 * errors["plain"].abs().mean()


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
    monkeypatch.setattr("labeldp_bench.models.penalised.AT_ONCE", 100)
    parts = fit_penalised(inputs, y, Watched(), 4, [1.0, 0.1], splits)
    assert max(sizes) == 100
    assert parts[1] == whole[1]
    torch.testing.assert_close(parts[0], whole[0])


def test_the_order_of_columns_does_not_matter_to_a_linear_model():
    x, y = problem()
    one = fitted(Logistic((1e-2,)), x, y, RandomizedResponse(2.0), "marginal").probabilities(x)
    flipped = x.flip(1) * 5 + 3
    other = fitted(Logistic((1e-2,)), flipped, y, RandomizedResponse(2.0), "marginal")
    np.testing.assert_allclose(one, other.probabilities(flipped), atol=1e-3)
