"""Audits whole runs: canaries with uniform labels through store, learner and model.

    python scripts/audit_end_to_end.py
    python scripts/audit_end_to_end.py only=circle seeds=2

For each data set, model, mechanism and eps: the eps claimed, the formula's, a bound from draws of
the mechanism, and bounds from the release and from the trained model alone: one-run auditing and
Clopper-Pearson over pairs of labels, thresholds chosen on one half; on the circle, whose law of
labels is known, the observational audit too. And how often an attacker names a canary's label.
Writes results/audits/end_to_end.csv, .md and .png. Keys: `only=mnist|circle|breast_cancer`,
`seeds` (runs, each with canaries of its own), `eps=[1,2,4]`, `out=FOLDER`, `data_dir`. Some
minutes.
"""

import math
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor

from labeldp.audit.audit import sampled_epsilon
from labeldp.audit.end_to_end import Game, accuracy, bound, one_run_epsilon, pair_epsilon
from labeldp.audit.exact import exact_epsilon
from labeldp.mechanisms import ClassMechanism, NoPrivacy
from labeldp.store import LabelStore
from labeldp.supervision import Classifier
from labeldp.support import seeding
from labeldp.support.files import write_text
from labeldp.support.progress import say
from labeldp.support.validate import InputError, check_choice
from labeldp_bench.cli.script import (
    command,
    default_data_dir,
    finite_eps,
    integer,
    output_folder,
    read_arguments,
    some,
)
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import cells_of
from labeldp_bench.interfaces import Session
from labeldp_bench.records.record import git_commit
from labeldp_bench.support.checkout import CHECKOUT
from papers.site.pictures import draw_audits

OUT = CHECKOUT / "results" / "audits"
CONFIDENCE = 0.95
"""That all bounds of the table hold together (Bonferroni)."""
BOUNDS = ("sampled", "one_run_release", "one_run_model", "pairs_model", "observational")
MECHANISMS = ("rr", "rappor", "subset_selection", "alibi")
SIGMA = 0.7
RUNS = {
    "mnist": [
        {
            "dataset": "mnist",
            "dataset.limit_train": 3000,
            "dataset.limit_test": 1000,
            "model": "knn",
            "model.k": 1,
        },
        {
            "dataset": "mnist",
            "dataset.limit_train": 3000,
            "dataset.limit_test": 1000,
            "model": "linear",
            "trainer.epochs": 30,
        },
    ],
    "circle": [
        {
            "dataset": "circle",
            "dataset.num_classes": 4,
            "dataset.sigma": SIGMA,
            "dataset.n_train": 4000,
            "dataset.n_test": 1000,
            "dataset.trials": 1,
            "model.k": 1,
        },
    ],
    "breast_cancer": [
        {
            "dataset": "npz",
            "dataset.name": "breast_cancer",
            "dataset.num_classes": 2,
            "model": "knn",
            "model.k": 1,
        },
        {
            "dataset": "npz",
            "dataset.name": "breast_cancer",
            "dataset.num_classes": 2,
            "model": "linear",
            "trainer.epochs": 30,
        },
    ],
}


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Audits every cell, writes table and picture, and returns 1 if a bound exceeds its claim."""
    own = {"only": "", "seeds": "3", "eps": "[1,2,4]", "out": str(OUT)}
    own = read_arguments(arguments, own | {"data_dir": default_data_dir()})
    if own["only"]:
        check_choice("only", own["only"], list(RUNS))
    budgets = [finite_eps("eps", part) for part in some("eps", own["eps"].strip("[]"))]
    seeds, out = integer("seeds", own["seeds"], low=1, high=100), output_folder("out", own["out"])
    blocks = [(name, block) for name in RUNS if own["only"] in ("", name) for block in RUNS[name]]
    cases = [(m, eps) for m in MECHANISMS for eps in budgets] + [("none", math.inf)]
    each = 1 - (1 - CONFIDENCE) / (len(BOUNDS) * len(blocks) * len(cases))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        _write_table(Path(folder))
        for name, block in blocks:
            data_dir = Path(folder) if name == "breast_cancer" else Path(own["data_dir"])
            for mechanism, eps in cases:
                rows.append(_audited(name, block, mechanism, eps, seeds, data_dir, each))
    table = pd.DataFrame(rows)
    text = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_text(out / "end_to_end.csv", text)
    short = table.drop(columns=["git_commit", "seconds", "confidence"])
    write_text(out / "end_to_end.md", short.to_markdown(index=False, floatfmt=".3g") + "\n")
    draw_audits(table, out / "end_to_end.png")
    wrong = table[list(BOUNDS)].gt(table.claimed, axis=0).any(axis=1)
    say(f"{len(table)} audits in {out}, {table.seconds.sum():.0f} s; {wrong.sum()} exceed a claim")
    return 1 if wrong.any() else 0


def _audited(
    name: str,
    block: dict[str, object],
    mechanism: str,
    eps: float,
    seeds: int,
    data_dir: Path,
    confidence: float,
) -> dict[str, object]:
    """Returns one row: all seeds of a data set, model, mechanism and eps."""
    start, seen = time.perf_counter(), []
    games: dict[str, Game] = {}
    for seed in range(seeds):
        keys = block | {"mechanism": mechanism, "seed": seed}
        keys |= {"eps": eps} if math.isfinite(eps) else {}
        (cell,) = cells_of([{"set": keys}], {})
        played, noted = _run(cell, seed, data_dir)
        games = {
            key: games[key].joined(game) if key in games else game for key, game in played.items()
        }
        seen.append(noted)
    made = cell.build().mechanism
    if not isinstance(made, ClassMechanism):
        raise InputError(f"mechanism={mechanism} releases no class labels one by one")
    classes = noted["classes"]
    private = math.isfinite(eps)
    row = {
        "dataset": name,
        "model": str(block.get("model", "knn")),
        "mechanism": mechanism,
        "claimed": eps,
        "exact": exact_epsilon(made, int(classes)),
        "sampled": sampled_epsilon(made, int(classes), 200_000, 0, confidence),
        "one_run_release": one_run_epsilon(games["release"], confidence),
        "one_run_model": one_run_epsilon(games["model"], confidence),
        "pairs_model": pair_epsilon(games["model"], confidence),
        "observational": (
            one_run_epsilon(games["observed"], confidence) if "observed" in games else math.nan
        ),
        "named_by_release": float(np.mean([one["release"] for one in seen])),
        "named_by_model": float(np.mean([one["model"] for one in seen])),
        "named_at_best": bound(eps, int(classes)) if private else 1.0,
        "named_by_chance": 1 / classes,
        "test_accuracy": float(np.mean([one["accuracy"] for one in seen])),
        "canaries": len(games["model"].scores),
        "seeds": seeds,
        "confidence": confidence,
        "seconds": time.perf_counter() - start,
        "git_commit": git_commit(),
    }
    say(
        f"{name:14s}{row['model']:8s}{mechanism:17s} eps={eps:<4g} release >= "
        f"{row['one_run_release']:.2f}, model >= {row['one_run_model']:.2f}"
    )
    return row


def _run(cell: Cell, seed: int, data_dir: Path) -> tuple[dict[str, Game], dict[str, float]]:
    """Returns the games of one run, and what an attacker who names a canary's label gets right."""
    parts = cell.build()
    bundle = parts.dataset.draw(data_dir, seeding.derive(seed, "trial", 0))
    draws = seeding.generator(seed, "canaries")
    labels, is_canary = _with_canaries(bundle, draws)
    store = LabelStore(labels, bundle.num_classes)
    store = store.open(cell.eps, seed, data=f"audit/{cell.data_name}")
    session = Session(seed, torch.device("cpu"))
    fitted = parts.learner.fit(bundle.train_features, store, parts.mechanism, parts.model, session)
    classifier = cast(Classifier, fitted)  # canaries are labels of classes
    with torch.no_grad():
        model = classifier.probabilities(bundle.train_features).double().clamp_min(1e-12).log()
        test = classifier.probabilities(bundle.test_features)
    (release,) = store.releases
    told = release.log_likelihood().clamp_min(-1e3)
    truth = labels[is_canary]
    games = {
        "release": Game.of_pairs(told[is_canary], truth, draws),
        "model": Game.of_pairs(model[is_canary], truth, draws),
    }
    if bundle.name == "circle":
        law = _circle_law(bundle)[~is_canary]
        games["observed"] = Game.observed(model[~is_canary], law, labels[~is_canary], draws)
    noted = {
        "release": accuracy(told[is_canary], truth),
        "model": accuracy(model[is_canary], truth),
        "accuracy": accuracy(test.double(), bundle.test_labels),
        "classes": float(bundle.num_classes),
    }
    return games, noted


def _with_canaries(bundle: DataBundle, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns training labels of which half were drawn uniformly, and which, bool (N,)."""
    count = len(bundle.store)
    trusted = bundle.store.open(math.inf, None)
    labels = trusted.trusted_labels(NoPrivacy(), "to plant canaries", torch.arange(count))
    is_canary = torch.rand(count, generator=draws) < 0.5
    uniform = torch.randint(bundle.num_classes, (count,), generator=draws)
    return torch.where(is_canary, uniform, labels), is_canary


def _circle_law(bundle: DataBundle) -> Tensor:
    """Returns P(label | point) of the Gaussians on the circle, float64 (N, K)."""
    angles = torch.arange(bundle.num_classes).double() * (2 * math.pi / bundle.num_classes)
    means = torch.stack([angles.cos(), angles.sin()], 1)
    distances = torch.cdist(bundle.train_features.double(), means) ** 2
    return (-distances / (2 * SIGMA**2)).softmax(1)


def _write_table(folder: Path) -> None:
    """Writes scikit-learn's breast cancer table as images of 5 x 6 bytes, 400 rows to train on."""
    data = load_breast_cancer()
    low, high = data.data.min(0), data.data.max(0)
    pixels = np.round(255 * (data.data - low) / (high - low)).astype(np.uint8).reshape(-1, 5, 6)
    order = np.random.default_rng(0).permutation(len(pixels))
    train, test = order[:400], order[400:]
    labels = data.target.astype(np.int64)
    np.savez(
        folder / "breast_cancer.npz",
        x_train=pixels[train],
        y_train=labels[train],
        x_test=pixels[test],
        y_test=labels[test],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
