"""Prints what models make of features learnt without labels, and who is ahead.

    python scripts/features.py

From committed records: the accuracy of each model; two of them minus a network without such
features; each with mirror images minus without; the Gaussian process on the graph minus each other
model, subset selection. Ten seconds.
"""

import sys
from collections import defaultdict
from typing import Any

import pandas as pd

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import check_committed, read_committed
from labeldp_bench.records.record import Record
from labeldp_bench.reports.draws import average
from labeldp_bench.reports.naming import model_name_of, name_of, setting_of
from labeldp_bench.reports.rendering import difference_text, mean_text
from labeldp_bench.reports.statistics import PLUS_MINUS, SeedsEstimate, holm
from papers.site.best_known import WITH_FEATURES
from papers.site.differences import means_of, tested

OURS = "graph_gaussian_process"
LOSSES = {
    "eigenmaps": "bce", "laplace_learning": "bce", "poisson_learning": "bce", "ridge": "bce",
    "probe": "marginal",
}  # fmt: skip
"""{rival: its loss}, as its experiment has it."""
MECHANISM = "subset_selection"
NETWORKS = {
    "mnist": "vector_approximation/table1a",
    "fashion_mnist": "vector_approximation/table1b",
}
"""{data set: the table that has its network}."""
Place = tuple[str, str, float]
"""Data set, features, eps."""


def estimates() -> dict[str, dict[Place, SeedsEstimate]]:
    """Returns {model: {place: accuracy in percent}} on the pre-training that all share."""
    found: dict[str, dict[Place, list[Record]]] = defaultdict(lambda: defaultdict(list))
    losses = {OURS: "bce", **LOSSES}
    for record in read_committed().values():
        model, identity = str(record["model"]), record["identity"]
        if record["mechanism"] != MECHANISM or record["loss"] != losses.get(model):
            continue
        if "pretrain.seed" in identity or "learner.retrain" in identity:
            continue
        place = str(record["dataset"]), str(record["pretrain"]), float(record["eps"])
        found[model][place].append(record)
    return {
        model: {place: mean_of(same) for place, same in of.items()} for model, of in found.items()
    }


def compared(found: dict[str, dict[Place, SeedsEstimate]]) -> pd.DataFrame:
    """Returns a row per data set, features and eps; p is Holm's over a rival's column."""
    places = sorted(found.get(OURS, {}))
    frame = pd.DataFrame(places, columns=["data", "pretrain", "eps"])
    frame[model_name_of(OURS)] = [mean_text(found[OURS][place]) for place in places]
    for rival in LOSSES:
        theirs = [found.get(rival, {}).get(place) for place in places]
        gaps = [found[OURS][place].minus(their) if their else None
                for place, their in zip(places, theirs, strict=True)]  # fmt: skip
        corrected = iter(holm([gap.p for gap in gaps if gap]))
        frame[model_name_of(rival)] = [
            f"{mean_text(their)}; {difference_text(gap, next(corrected))}"
            if their and gap else ""
            for their, gap in zip(theirs, gaps, strict=True)
        ]  # fmt: skip
    return frame


def by_eps() -> pd.DataFrame:
    """Returns a row per model on features, data set, mechanism and setting, a column per eps."""
    found: dict[tuple[str, ...], dict[float, list[Record]]] = defaultdict(lambda: defaultdict(list))
    names = ("data", "model", "features", "mechanism", "loss", "setting")
    for record in read_committed().values():
        # Of several networks by one recipe the tables have the first.
        if record["model"] in WITH_FEATURES and "pretrain.seed" not in record["identity"]:
            kind = (
                *(record[key] for key in ("dataset", "model", "pretrain", "mechanism", "loss")),
                setting_of(record["identity"]),
            )
            found[*map(str, kind)][float(record["eps"])].append(record)
    rows = []
    for place, by_eps in sorted(found.items()):
        texts = {f"{eps:g}": mean_text(mean_of(by_eps[eps])) for eps in sorted(by_eps)}
        rows.append(dict(zip(names, place, strict=True)) | texts)
    frame = pd.DataFrame(rows)
    eps = sorted((name for name in frame if name not in names), key=lambda text: float(str(text)))
    return frame[[*names, *eps]].fillna("")


def against_network() -> pd.DataFrame:
    """Returns each model on features minus the CNN with the marginal loss, by eps and mechanism."""
    found: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in read_committed().values():
        is_first = "pretrain.seed" not in record["identity"]
        if record["model"] in ("probe", "eigenmaps") and record["dataset"] in NETWORKS and is_first:
            place = (record["dataset"], record["model"], record["pretrain"], record["mechanism"])
            found[*map(str, place), f"{float(record['eps']):g}"].append(record)
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for (data, model, features, mechanism, eps), same in sorted(found.items()):
        network = means_of(NETWORKS[data], every_seed=True)
        method = mechanism if mechanism in ("alibi", "none") else f"{mechanism}+marginal"
        if mechanism != "none" and (method, float(eps)) in network:
            gap = mean_of(same).minus(network[method, float(eps)])
            row = rows.setdefault((data, model, features, eps), {})
            row |= {"data": data, "model": model, "features": features, "eps": float(eps)}
            row[name_of(mechanism)] = gap
    frame = pd.DataFrame(rows.values())
    return tested(frame, [str(name) for name in frame.columns[4:]])


def against_unmirrored() -> pd.DataFrame:
    """Returns each model on mirrored features minus the same without mirror images."""
    found: dict[tuple[str, ...], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in read_committed().values():
        place = (record["dataset"], record["model"], record["mechanism"])
        found[*map(str, place), f"{float(record['eps']):g}"][record["pretrain"]].append(record)
    rows = [
        {"data": data, "model": model, "mechanism": mechanism, "eps": float(eps)}
        | {"difference": mean_of(of["mirrored"]).minus(mean_of(of["patches_simclr"]))}
        for (data, model, mechanism, eps), of in sorted(found.items())
        if of["mirrored"] and of["patches_simclr"]
    ]
    return tested(pd.DataFrame(rows), ["difference"])


def mean_of(records: list[Record]) -> SeedsEstimate:
    """Returns the mean accuracy in percent."""
    return average(records, "accuracy").estimate.scaled(100)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the four tables."""
    read_arguments(arguments, {})
    check_committed()
    parts = {
        "Models on features of unlabelled images, by eps": by_eps(),
        "Models on features minus the CNN with the marginal loss (p: one family)":
            against_network(),
        "Patches and SimCLR with mirror images minus without (p: one family)":
            against_unmirrored(),
        "The Gaussian process, and a rival's mean; ours minus it (p: a family for each rival)":
            compared(estimates()),
    }  # fmt: skip
    for title, frame in parts.items():
        print(f"## {title}\n\n{frame.to_markdown(index=False)}\n")
    print(f"{PLUS_MINUS} p: by pairs where three seeds are shared, else Welch's; after Holm.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
