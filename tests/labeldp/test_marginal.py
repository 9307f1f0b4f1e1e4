"""The loss for other libraries: its derivatives, its optimum, and the programs of its page."""

import contextlib
import io
import math
import pickle
import re

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch.nn import functional

import labeldp as ldp
from labeldp.support.validate import InputError
from tests.conftest import CHECKOUT

K, N = 3, 150
ROWS = torch.arange(N)
LABELS = np.random.default_rng(0).integers(K, size=N)


def release_of(mechanism="rr", eps=2.0, labels=LABELS, num_classes=K):
    return ldp.privatize(labels, list(range(num_classes)), eps, mechanism, seed=0, again=True)


class Data:
    """What boosters give beside scores: XGBoost's has `num_row`."""

    def __init__(self, weights=None):
        self.get_weight = lambda: weights


EACH = {name: release_of(name) for name in ("rr", "rappor", "alibi", "subset_selection")}
EACH["sure"] = release_of(eps=math.inf)
EACH["survey"] = ldp.Release.from_answers(["yes", "no"] * (N // 2), ldp.designs.warner(p=0.7))
SCORES = 2 * np.random.default_rng(1).normal(size=(N, K))


@pytest.mark.parametrize("name", EACH)
def test_derivatives_are_those_of_differences(name):
    # A booster would go to another optimum, or beyond it: the curvature may not be less than the
    # matrix of second derivatives.
    release, step, weights = EACH[name], 1e-3, np.arange(1.0, N + 1)[:, None]
    scores = SCORES[:, : len(release.classes)]
    gradient, curvature = ldp.MarginalLoss(release).objective(scores, Data(weights[:, 0]))
    each = ldp.MarginalLoss(release, reduction="none")
    moves = step * np.eye(scores.shape[1])

    def value(moved):
        return each(torch.from_numpy(scores + moved), ROWS).numpy()

    slopes = np.stack([(value(move) - value(-move)) / (2 * step) for move in moves], 1)
    np.testing.assert_allclose(gradient, weights * slopes, atol=1e-4)
    hessian = [
        [value(a + b) - value(a - b) - value(b - a) + value(-a - b) for a in moves] for b in moves
    ]
    bound = (curvature / weights)[:, :, None] * np.eye(scores.shape[1])
    less = bound - np.array(hessian).transpose(2, 0, 1) / (4 * step**2)
    assert np.linalg.eigvalsh(less).min() > -1e-4 and curvature.max() <= 0.5 * N


def test_of_two_classes_one_column_is_the_log_odds_of_the_second():
    # Swapped classes would learn the opposite.
    loss, odds, columns = ldp.MarginalLoss(EACH["survey"]), SCORES[:, 1], SCORES[:, :2] * [0, 1]
    (slope, curvature), both = loss.objective(odds, Data([])), loss.objective(columns, Data())
    assert np.array_equal(slope, both[0][:, 1]) and np.array_equal(2 * curvature, both[1][:, 1])
    mean = pytest.approx(float(loss(torch.from_numpy(columns), ROWS)))
    assert loss.metric(odds, Data()) == ("marginal_loss", mean, False)
    half = ldp.MarginalLoss(EACH["survey"][:9]).metric(odds[:9], Data())
    assert loss.metric(odds, Data(ROWS.numpy() < 9)) == pytest.approx(half)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_without_noise_it_is_cross_entropy_to_the_last_bit(kind, reduction):
    ours, theirs = (torch.from_numpy(SCORES).to(kind).requires_grad_() for _ in "ab")
    loss = ldp.MarginalLoss(EACH["sure"], reduction=reduction)(ours, ROWS.flip(0).int())
    wide = theirs.float() if kind == torch.bfloat16 else theirs
    labels = torch.from_numpy(LABELS).flip(0)
    expected = functional.cross_entropy(wide, labels, reduction=reduction)
    assert loss.dtype == wide.dtype and torch.equal(loss, expected)
    loss.sum().backward(), expected.sum().backward()
    assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("tool", ["torch", "lightgbm", "xgboost"])
def test_at_the_optimum_it_is_the_classifier(tool, num_classes):
    # Four cells are four rows of probabilities, whatever the tool. The plain loss would say of a
    # rare class how often it is released.
    cells, drawn = np.arange(2000) % 4, np.random.default_rng(3).random((2000, 1))
    odds = np.array([[2.0, 0, 0], [0, 1, -1], [-1, 0, 1], [0, 0, -2.5]])[:, -num_classes:]
    labels = (softmax(odds, 1).cumsum(1)[cells] < drawn).sum(1)
    X, release = np.eye(4)[cells], release_of(labels=labels, num_classes=num_classes)
    loss, rare = ldp.MarginalLoss(release), cells == 3
    expected = ldp.LabelDPClassifier(penalty=0).fit(X, release).predict_proba(np.eye(4))
    if tool == "torch":
        scores = torch.from_numpy(np.log(expected)).requires_grad_()
        loss(scores[cells], torch.arange(2000)).backward()
        assert float(scores.grad.abs().max()) < 1e-4
        return
    library = pytest.importorskip(tool)
    wide = {"num_class": K} if num_classes > 2 else {}
    if tool == "xgboost":
        data, params = library.DMatrix(X), wide | {"lambda": 0, "min_child_weight": 0}
        model = library.train(params, data, 100, obj=loss.objective)
        found = model.predict(data, output_margin=True)[:4]
    else:
        params = {"objective": loss.objective, "verbosity": -1, "learning_rate": 0.3}
        found = library.train(wide | params, library.Dataset(X), 100).predict(X)[:4]
    found = found if wide else np.stack([0 * found, found], 1)
    np.testing.assert_allclose(softmax(found, 1), expected, atol=0.01)
    true, plain = (np.mean(each[rare] == K - 1) for each in (labels, release.outputs.numpy()))
    assert not wide or abs(expected[3, -1] - true) < abs(plain - true) / 2


@pytest.mark.filterwarnings("ignore:the release is practically noise")
def test_it_holds_a_batch_of_many_classes_and_its_pickle_the_release_alone():
    # 2,000 rows of 10^5 classes would take 800 MB before the first step; a worker is sent less.
    release = release_of(labels=np.arange(2000), num_classes=100_000)
    loss, rows = ldp.MarginalLoss(release, reduction="none"), torch.tensor([1999, 3])
    logits, likelihood = torch.zeros((2, 100_000)), release[rows.numpy()].log_likelihood()
    expected = np.log(np.exp(likelihood - likelihood.max(1, keepdims=True)).mean(1))
    assert loss(logits, rows).tolist() == pytest.approx(-expected, rel=1e-5)
    assert "stored" not in vars(loss.release)
    small = ldp.MarginalLoss(release_of("rappor"))
    size, value = len(pickle.dumps(small)), small(LOGITS, ROWS)
    assert pickle.loads(pickle.dumps(small))(LOGITS, ROWS) == value
    assert len(pickle.dumps(small)) == size


LOGITS = torch.zeros((N, K))
REFUSED = [
    (lambda loss: loss(LOGITS[:2], torch.tensor([0, N])), f"0 to {N - 1}, got {N}"),
    (lambda loss: loss(LOGITS[:2], torch.tensor([0, -1])), "got -1"),
    (lambda loss: loss(LOGITS, ROWS > 3), "whole numbers.*bool"),
    (lambda loss: loss(LOGITS[:, :2], ROWS), r"\(B, 3\).*\(150, 2\)"),
    (lambda loss: loss(LOGITS, list(range(N))), r"no tensor \(150,\)"),
    (lambda loss: loss.metric(SCORES[:9], Data()), r"\(150, 3\), got \(9, 3\).*release\[rows\]"),
    (lambda loss: loss.metric(SCORES, Data(np.zeros(N))), "weights are all 0"),
    (lambda loss: loss.objective(SCORES[:, 0], Data()), "num_class=3"),
    (lambda loss: loss.objective(LABELS, SCORES), "XGBClassifier"),
    (lambda loss: ldp.MarginalLoss(loss.release, reduction="max"), "mean, sum, none"),
    (lambda loss: ldp.MarginalLoss(LABELS), "release of classes.*ndarray"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_what_does_not_belong_together_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong(ldp.MarginalLoss(EACH["rr"]))


PAGE = (CHECKOUT / "docs" / "other-libraries.md").read_text()
(TABLE, _), *PROGRAMS = re.findall("```python\n(.*?)```\n(?:\n```\n(.*?)```)?", PAGE, re.DOTALL)


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_programs_of_the_page(program, printed):
    pytest.importorskip(re.match("import ([a-z]+)", program)[1])
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(TABLE + program, "other-libraries.md", "exec"), {})
    ours, stated = (re.search(r"accuracy ([\d.]+)%", text)[1] for text in (out.getvalue(), printed))
    assert float(ours) == pytest.approx(float(stated), abs=1)  # late digits differ by machine
