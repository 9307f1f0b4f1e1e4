"""Label inference attacks: what a release gains an attacker, and that eps bounds it."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch

from labeldp.audit import end_to_end as attack
from labeldp.audit.end_to_end import (
    Attack,
    accuracy,
    bound,
    flat,
    learned_beliefs,
    posterior,
)
from labeldp.mechanisms import AdditiveLaplace, RandomizedResponse, Rappor, SubsetSelection
from labeldp.store import LabelStore
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.collect import merge_diagnoses
from scripts import attack as script

K = 5
LABELS = torch.randint(K, (20_000,), generator=torch.Generator().manual_seed(0))
UNIFORM = torch.full((len(LABELS), K), -math.log(K), dtype=torch.float64)


def attacked(mechanism, before=UNIFORM):
    release = LabelStore(LABELS, K).open(mechanism.eps, 0).release(mechanism)
    return Attack.of(before, posterior(before, release), LABELS)


@pytest.mark.parametrize("eps", [0.5, 2.0])
@pytest.mark.parametrize("make", [RandomizedResponse, Rappor, SubsetSelection, AdditiveLaplace])
def test_eps_bounds_what_bayes_rule_gains(make, eps):
    # A wrong posterior, or a mechanism at another eps than it claims, would pass unseen.
    found = attacked(make(eps))
    assert found.without == pytest.approx(1 / K)
    noise = 4 * math.sqrt(0.25 / len(LABELS))
    assert 1 / K < found.with_release <= bound(eps, K) + noise
    assert 0 < found.log_odds < found.log_odds_95 <= eps + 1e-9


def test_the_bound_is_reached_by_rr_and_missed_by_twice_the_budget():
    # A bound that nothing reaches, or nothing breaks, says nothing.
    noise = 4 * math.sqrt(0.25 / len(LABELS))
    assert abs(attacked(RandomizedResponse(1.0)).with_release - bound(1.0, K)) < noise
    assert attacked(RandomizedResponse(2.0)).with_release > bound(1.0, K) + noise
    assert attacked(RandomizedResponse(1.0)).log_odds_95 == pytest.approx(1.0)


def test_a_good_prior_leaves_less_to_gain():
    # The advantage would count what features alone tell.
    prior = (0.9 * torch.eye(K, dtype=torch.float64)[LABELS] + 0.02).log()
    sure, unsure = attacked(RandomizedResponse(1.0), prior), attacked(RandomizedResponse(1.0))
    assert sure.without == 1.0 and abs(sure.additive) < 0.001 < unsure.additive


def test_ties_count_as_shares():
    # A release that says nothing would be right or wrong for ever by the order of classes.
    assert accuracy(UNIFORM, LABELS) == pytest.approx(1 / K)
    beliefs = torch.log(torch.tensor([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]]))
    assert accuracy(beliefs, torch.tensor([1, 2])) == 0.25


def test_small_model_learns_and_is_calibrated(monkeypatch):
    # An attacker that is sure of wrong guesses would find no use in any release.
    monkeypatch.setattr(attack, "STEPS", 300)
    draws = torch.Generator().manual_seed(1)
    means = torch.eye(3)[torch.arange(3)] * 2
    labels = torch.randint(3, (3000,), generator=draws)
    points = means[labels] + torch.randn(3000, 3, generator=draws)
    noise = torch.randn(3000, 3, generator=draws)
    known = torch.arange(500)
    beliefs = learned_beliefs([noise, points], labels[known], known, 3, seed=0)
    assert accuracy(beliefs[500:], labels[500:]) > 0.75  # chose points, not noise
    truth = labels[500:, None]
    loss = -beliefs[500:].gather(1, truth).mean()
    assert float(loss) < 0.65 < math.log(3)
    assert torch.equal(beliefs, learned_beliefs([noise, points], labels[known], known, 3, seed=0))
    right = torch.eye(3)[labels]
    assert accuracy(learned_beliefs([noise], labels[known], known, 3, 0, [right]), labels) == 1.0
    nothing = learned_beliefs([points], labels[:0], known[:0], 3, seed=0)
    assert accuracy(nothing, labels) == pytest.approx(1 / 3)


def test_flat_features_are_centred_at_one_scale():
    # A constant pixel would divide by zero, a large one drown the others.
    columns = flat(torch.randint(0, 255, (50, 4, 4, 1), generator=torch.Generator().manual_seed(0)))
    assert columns.shape == (50, 16) and torch.isfinite(flat(torch.zeros(5, 3))).all()
    assert torch.allclose(columns.mean(0), torch.zeros(16), atol=1e-5)


def test_script_writes_a_row_per_share_and_says_no_guarantee(
    tiny_network, tiny_images, tmp_path, monkeypatch
):
    # A heuristic would be given the bound of a private mechanism, or rows would pile up.
    out = tmp_path / "attacks.csv"
    data = [text for text in tiny_network if not text.startswith(("data_dir", "device", "trainer"))]
    places = [f"data_dir={tiny_images}", f"out_dir={tmp_path}", f"out={out}", "known=[0,0.2]"]
    monkeypatch.setattr(attack, "STEPS", 100)
    heuristic = ["learner.client.epochs=2", "learner.k2=2", "mechanism.k1=2"]
    for _ in range(2):
        assert script.main([*data, *places, "mechanism=rr", "eps=1"]) == 0
    assert script.main([*data, *places, "mechanism=ple", *heuristic]) == 0
    rows = pd.read_csv(out)
    assert (
        rows.mechanism.tolist() == ["ple"] * 2 + ["rr"] * 2 and rows.known.tolist() == [0, 0.2] * 2
    )
    assert set(rows.guarantee[rows.mechanism == "ple"]) == {"no guarantee"}
    assert set(rows.bound[rows.mechanism == "ple"]) == {1.0}
    assert rows.bound[rows.mechanism == "rr"].tolist() == pytest.approx(
        [bound(1.0, 3)] * 2, abs=1e-5
    )
    first = rows[(rows.mechanism == "ple") & (rows.known == 0)].iloc[0]
    assert first["with"] == pytest.approx(first.released_agreement, abs=1e-5)


@pytest.mark.parametrize(
    ("recipe", "stages"),
    [(["mechanism=lp_2st", "eps=4"], [0]), (["mechanism=rr", "learner=fixmatch"], [])],
)
def test_only_the_last_stage_goes_untrained(recipe, stages, tiny_network, tiny_images):
    # LP-2ST without its first stage is RR, and ple without its client publishes noise.
    cell = compose_cell([*tiny_network, *recipe])
    trained = []
    real = script.NetworkModel.fit_by

    def spy(self, kind, features, supervision, session):
        trained.append(session.stage)
        return real(self, kind, features, supervision, session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script.NetworkModel, "fit_by", spy)
        script.attack(cell, [0.0], tiny_images)
    assert trained == stages


def test_bad_input_is_one_line(capsys):
    # A user would see a traceback.
    assert script.main(["mechanism=rr", "known=[many]"]) == 2
    assert script.main(["mechanism=rr"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: known must be a list of shares, got '[many]'")
    assert "attacks are made on images" in lines[1] and len(lines) == 2


def test_rows_that_were_there_outlive_a_failed_write(tmp_path, monkeypatch):
    # Hours of attacks would be lost to a full disk.
    path = tmp_path / "attacks.csv"
    path.write_text("old\n")

    def half(file, _):
        file.write_bytes(b"ha")
        raise OSError("no space left")

    monkeypatch.setattr(pd, "read_csv", lambda *_, **__: pd.DataFrame(columns=["config_hash"]))
    monkeypatch.setattr(Path, "write_text", half)
    row = dict.fromkeys([*script.KEY, "accuracy"], "x")
    record = {"config_hash": "x", "dataset": "x", "loss": "x", "seed": 0}
    record["notes"] = {"enhancement": {"k": {"1": 0.5}}}
    for write in (
        lambda: script.write([row], path),
        lambda: merge_diagnoses([record], path, {"x"}),
    ):
        with pytest.raises(Exception, match="no space"):
            write()
        assert path.read_text() == "old\n" and list(tmp_path.iterdir()) == [path]
