"""Attack on single labels: what a release adds to the features, for each share of known labels.

    python scripts/attack.py mechanism=ple dataset=mnist trainer.epochs=4
    python scripts/attack.py experiment=mechanisms/mnist learner.loss=marginal
    python scripts/attack.py experiment=ple/figure2 dataset=mnist

Arguments as for a sweep. Runs what a release needs (a client, a first stage), no further training,
on the CPU. Adds rows to results/attacks.csv, with the model accuracy of the same cell where it has
a record. Further keys: `out=FILE.csv`, `known=[0,0.01]` (the
shares of known labels), `data_dir`, `out_dir`.
"""

import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from labeldp.audit.end_to_end import Attack, bound, flat, learned_beliefs, posterior
from labeldp.mechanisms import LabelEnhancement, NoPrivacy
from labeldp.store import StoredRelease
from labeldp.support import seeding
from labeldp.support.files import write_text
from labeldp.support.progress import say
from labeldp.support.validate import InputError, check_number
from labeldp_bench.cli.script import command, default_data_dir, output_file, split_arguments
from labeldp_bench.experiments.cell import NO_GUARANTEE, Cell
from labeldp_bench.experiments.experiment import cells_of, read_experiment
from labeldp_bench.interfaces import Session
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.records.collect import find_done
from labeldp_bench.records.record import git_commit
from labeldp_bench.runs.environment import environment_of
from labeldp_bench.support.checkout import CHECKOUT

OUT = CHECKOUT / "results" / "attacks.csv"
RUNS = CHECKOUT / "results" / "runs"
KNOWN = (0.0, 0.001, 0.01, 0.1)
FROM_FEATURES: dict[tuple[Any, ...], Tensor] = {}
"""What features alone tell, once for all mechanisms that release the same examples."""
KEY = ["dataset", "mechanism", "loss", "eps", "seed", "config_hash", "known"]


class Guess:
    """A classifier that knows nothing."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    def scores(self, features: Tensor) -> Tensor:
        """Returns zeros, (m, K)."""
        return torch.zeros(len(features), self.num_classes)

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns 1 / K, (m, K)."""
        return self.scores(features).double().softmax(1)


class ReleaseOnly(NetworkModel):
    """A model whose last stage is not trained: nothing is released after it."""

    def fit_by(self, kind: Any, features: Tensor, supervision: Any, session: Session) -> Any:
        """Returns a trained network in earlier stages, a guess in the last one."""
        if session.stage + 1 == session.stages:
            return Guess(supervision.num_classes)
        return super().fit_by(kind, features, supervision, session)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Attacks every cell and returns the exit status."""
    own = {"experiment": "", "known": "", "out": str(OUT), "out_dir": str(RUNS)}
    own, axes = split_arguments(arguments, own | {"data_dir": default_data_dir()})
    shares = read_shares(own["known"])
    environment = environment_of(own["out_dir"], own["data_dir"], "cpu")
    blocks = read_experiment(own["experiment"]).blocks or [] if own["experiment"] else [{}]
    cells, out = cells_of(blocks, axes), output_file("out", own["out"])
    for cell in cells:
        done = find_done([cell], environment.out_dir, committed=True).get(cell.config_hash, {})
        rows = attack(cell, shares, environment.data_dir)
        write([row | {"accuracy": done.get("accuracy")} for row in rows], out)
    return 0


def read_shares(text: str) -> list[float]:
    """Returns the shares of known labels that `known=[0,0.01]` spells."""
    try:
        shares = [float(part) for part in text.strip("[]").split(",")] if text else list(KNOWN)
    except ValueError:
        raise InputError(f"known must be a list of shares, got {text!r}") from None
    return [check_number("known", share, low=0, high=0.9) for share in shares]


def attack(cell: Cell, shares: list[float], data_dir: Path) -> list[dict[str, Any]]:
    """Returns one row per share of known labels."""
    say(cell.title)
    parts = cell.build()
    mechanism, model = parts.mechanism, parts.model
    if not isinstance(model, NetworkModel):
        raise InputError("attacks are made on images (use model=cnn and dataset=mnist)")
    seed = seeding.derive(cell.seed, "trial", 0)
    bundle = parts.dataset.draw(data_dir, seed)
    store = bundle.store.open(cell.eps, seed, data=cell.data_name)
    session = Session(seed, torch.device("cpu"), say=say)
    release_only = ReleaseOnly(model.network, model.trainer, initial=model.initial)
    parts.learner.fit(bundle.train_features, store, mechanism, release_only, session)
    # The attack is scored on true labels, which come from a store of its own.
    order = torch.cat([release.indices for release in store.releases])
    trusted = bundle.store.open(math.inf, None, again="scoring")
    truth = trusted.trusted_labels(NoPrivacy(), "scoring", order)
    images = flat(bundle.train_features[order])
    rows = []
    for share in shares:
        draws = seeding.generator(cell.seed, "attack", "known")
        known = torch.randperm(len(truth), generator=draws)[: round(share * len(truth))]
        data = tuple(pair for pair in cell.identity.items() if pair[0].startswith("dataset"))
        same = (data, cell.seed, share, order.numpy().tobytes())
        if same not in FROM_FEATURES:
            FROM_FEATURES[same] = learned_beliefs(
                [images], truth[known], known, bundle.num_classes, cell.seed
            )
        before = FROM_FEATURES[same]
        after = beliefs(store.releases, before, images, truth[known], known, cell.seed)
        unknown = torch.ones(len(truth), dtype=torch.bool)
        unknown[known] = False
        found = Attack.of(before[unknown], after[unknown], truth[unknown])
        private = mechanism.private and math.isfinite(mechanism.eps)
        # A prior of the image's own, from other releases, tells of the image beyond eps.
        alone = all(r.prior is None or r.prior.dim() == 1 for r in store.releases)
        best = bound(mechanism.eps, bundle.num_classes) if alone else math.nan
        rows.append(
            {
                "dataset": cell.dataset_name, "mechanism": cell.identity["mechanism"],
                "loss": cell.identity["learner.loss"], "eps": mechanism.eps, "seed": cell.seed,
                "config_hash": cell.config_hash, "known": share,
                "guarantee": f"eps={mechanism.eps:g}" if private else NO_GUARANTEE,
                "released_agreement": store.released_agreement, "without": found.without,
                "with": found.with_release, "additive": found.additive,
                "log_odds": found.log_odds, "log_odds_95": found.log_odds_95,
                "bound": best if private else 1.0,
                "examples": len(truth), "git_commit": git_commit(),
            }
        )  # fmt: skip
        say(
            f"  {len(known):>6,} labels known: {100 * found.without:.2f} % right without the "
            f"release, {100 * found.with_release:.2f} % with it"
        )
    return rows


def beliefs(
    releases: tuple[StoredRelease, ...],
    before: Tensor,
    images: Tensor,
    labels: Tensor,
    known: Tensor,
    seed: int,
) -> Tensor:
    """Returns the log beliefs, (n, K), of who believed `before` and sees the releases.

    Private mechanisms meet the best attacker there is for given beliefs, Bayes' rule. A vector of
    ple has no likelihood: the attacker reads it as a distribution, or learns from known labels what
    it means.
    """
    if not isinstance(releases[0].mechanism, LabelEnhancement):
        ends = [len(release.indices) for release in releases]
        pairs = zip(before.split(ends), releases, strict=True)
        return torch.cat([posterior(part, release) for part, release in pairs])
    (release,) = releases
    log_d = release.outputs.double().clamp_min(1e-12).log()
    vectors = flat(log_d.float())
    if (before == before[0, 0]).all():  # nothing is known
        return log_d
    # A few columns beside hundreds of pixels: scaled to weigh as much together.
    weight = math.sqrt(images.shape[1] / vectors.shape[1])
    both = torch.cat([images, weight * vectors], 1)
    # Few labels teach a model less than the vector says by itself, or added to the features' word.
    ready = [vectors, *(before + weight * vectors for weight in (0.5, 1.0, 2.0, 4.0))]
    inputs = [images, vectors, both]
    return learned_beliefs(inputs, labels, known, release.num_classes, seed, ready)


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Merges rows into the CSV, in place of those of the same cell and share."""
    table = pd.DataFrame(rows)
    if path.is_file():
        old = pd.read_csv(path, dtype={"config_hash": str})
        table = pd.concat([old, table]).drop_duplicates(["config_hash", "known"], keep="last")
    table = table.sort_values(KEY)
    write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
