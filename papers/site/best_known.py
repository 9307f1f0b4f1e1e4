"""The best known accuracy of each data set and eps: published by any paper, and ours.

Rows where ours is behind are rows like the others.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.naming import counted, data_name_of, name_of, setting_of
from labeldp_bench.reports.rendering import Part
from labeldp_bench.reports.statistics import (
    ENOUGH_SEEDS,
    NOTHING,
    PLUS_MINUS,
    Average,
    SeedsEstimate,
    average,
    holm,
    is_significant,
)
from papers.comparisons import against_printed, pooled
from papers.naming import features_name_of, model_name_of, widths_of
from papers.tables import Row, write_page


class Ours(NamedTuple):
    """A kind of ours: its name, the column of its values, and that of the published ones."""

    name: str
    column: str
    rival: str


STEM = "best_known"
CHOSEN = Path(__file__).with_name("chosen.csv")
"""How settings were chosen: by releases, or after a look at test scores or true labels."""
DATA_SETS = ("mnist", "fashion_mnist", "kmnist", "cifar10", "cifar100")
BUDGETS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
WITH_FEATURES = {
    "probe",
    "ridge",
    "eigenmaps",
    "clusters",
    "laplace_learning",
    "graph_gaussian_process",
}
"""Models on features that were learned before any release."""
TEST_IMAGES = 10_000
"""Test images of each official set; a record of fewer is no candidate."""
KINDS = {
    "": Ours("ours", "ours", "printed_local"),
    "features_": Ours("ours, features", "ours_features", "printed_local"),
    "central_": Ours("ours, central", "ours_central", "printed_central"),
}
"""{prefix of a kind's other columns: the kind}."""
METHOD_KEYS = ("mechanism", "learner", "loss", "model", "pretrain")
"""Fields of a record that name its method, in this order."""
NOT_PRIVATE = ("none", "ple")
NOISY = "noisy_labels"
"""The file of published values at the noise of randomised response, by no private run."""
REMARKS = {
    "cifar10": "Not in this table: Tang et al. (PoPETs 2022, Tables 3 and 6) publish local results "
    "on CIFAR-10 at eps 0.5, 1, 2, 3 and 4: randomised response, learned by AugDescent, FixMatch "
    "and filtered FixMatch. Their code names these runs; we could not get the values.",
    "cifar100": "Why so little at eps=0.5: 50,000 released sets, of 42 of the 100 classes each, "
    "tell about as much as 32 true labels (at eps=1: 133). From so little the marginal likelihood, "
    "which is not convex, loses classes: of 93 to 99, by seed, no test image is right.",
}
"""{data set: what a reader must know of its table, below it}."""
LOOKED = "†"
SAME_NOISE = "same noise, not private"
CAPTION = f"""\
Test accuracy in percent; a table for each data set, a row for each eps. {PLUS_MINUS}

- *published, local*: the best value in `results/published` at this eps without a trusted curator. \
If a smaller eps has a better one, that one is shown with its eps, since it guarantees this eps too.
- *published, central*: the same with a trusted curator and delta > 0. A local value is shown \
where it is better, since it needs no curator.
- *ours*: local privacy with delta = 0 at this eps, by a network trained on the releases alone.
- *ours, features*: the same, on features learned beforehand from unlabelled images, or from the \
labels of a public data set (CIFAR-100 or ImageNet), which the row names.
- *same noise, not private*: the best value of the literature on noisy labels, by networks on the \
images alone, at the noise of randomised response at this eps; if a smaller eps has a better one, \
that one. No private run: exactly a share of the labels was drawn anew, settings were chosen for \
each share, and the test epoch is the best. It tells what such labels can teach, and is in no test.
- *ours, central*: a trusted curator; delta = 0, but 1e-5 for noisy moments, LabelDP-Pro and \
PATE-FM. `*`: significantly better than the published central value.
- *ahead*: which local value is significantly better; *unclear*: neither is; *untested*: only one \
seed is known; -: no value is published at this eps.
- {LOOKED}: some part of the method was chosen after a look at test scores or true labels, so that \
the value may be too high. The last list of this page says which part, and how others were chosen.

*Which of our methods is shown.* Of all committed methods with {ENOUGH_SEEDS} seeds or more, the \
one whose interval has the highest lower end: the highest mean would favour few, lucky seeds. So \
ours is chosen by test accuracy, as published values are. Where no method has that many seeds, the \
highest mean is shown without an interval, and the count says *only*.

*How values are compared.* By a t test at 5 %, in which a published value counts as one run. It \
and ours are taken to spread as our methods of at least its accuracy do (if there are none, as all \
do), because a few runs may agree by chance. If ours is higher, p is the smallest of all methods \
that it was chosen from, times their number. If it is lower, p is the largest, since the published \
value must be better than all of them. All p values are corrected after Holm for the {{tests}} \
tests of this page. Runs of a method on SimCLR's features share one pre-trained network, and not \
all methods use the same one: an interval covers the noise of the labels, not the pre-training."""


class Best(NamedTuple):
    """The best of ours of one kind at one data set and eps.

    Attributes:
        record: one of its runs; empty without any.
        estimate: its accuracy in percent.
        rivals: the accuracies of all methods that it was chosen from.
    """

    record: Record
    estimate: SeedsEstimate
    rivals: Sequence[SeedsEstimate]


def rows_of(records: Records, published: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per data set and eps at which anything is known.

    Columns:
        dataset, eps.
        printed_local, printed_central: the best published value at this or a smaller eps; a local
            one needs no curator, so it counts as central too. With `_eps` and `_trust` (its own),
            `_here` (whether any is published at this eps) and `_by` (paper, table, method, note).
        printed_noisy: the same of learners of noisy labels, which are not private.
        ours: the best of ours at this eps. Its method: mechanism, learner, loss, model, pretrain,
            setting (of LP-2ST), widths, epochs, examples, budget; its runs: seeds, low, high; the
            choice: methods (number of candidates), p, chosen (how settings were chosen), looked
            (at test scores or true labels).
        ours_features, ours_central: the same, their other columns with the prefixes `features_`
            and `central_`.
        ours_imagenet: the best on features from ImageNet's labels, not tested; imagenet_mechanism,
            _model, _seeds, _low, _high.
        ahead: who is ahead under local privacy.
    Accuracies in percent; low and high are the ends of the 95 % interval.
    """
    found = best_of_ours(records)
    printed = published[
        (published.metric == "accuracy") & published.usable & ~published.method.isin(NOT_PRIVATE)
    ]
    is_central = printed.note.str.contains("central")
    printed = printed.assign(trust=is_central.map({True: "central", False: "local"}))
    noisy = published[published.paper == NOISY].assign(trust="noisy")
    rows = []
    for dataset, eps in itertools.product(DATA_SETS, BUDGETS):
        known = printed[(printed.dataset == dataset) & (printed.eps <= eps)]
        row: Row = {"dataset": dataset, "eps": eps}
        row |= _printed_columns("printed_local", known[known.trust == "local"], eps)
        row |= _printed_columns("printed_central", known, eps)
        same = noisy[(noisy.dataset == dataset) & (noisy.eps <= eps)]
        row |= _printed_columns("printed_noisy", same, eps)
        for prefix, kind in KINDS.items():
            best = found.get((dataset, eps, prefix), Best({}, NOTHING, ()))
            # A value published only at smaller eps says little of this one: shown, not tested.
            value = row[kind.rival] if row[f"{kind.rival}_here"] else math.nan
            columns = _columns(best) | {"p": _p_of(best, value)}
            row[kind.column] = best.estimate.value
            row |= {f"{prefix}{key}": value for key, value in columns.items()}
        imagenet = found.get((dataset, eps, "imagenet_"), Best({}, NOTHING, ()))
        row["ours_imagenet"] = imagenet.estimate.value
        columns = _columns(imagenet)
        row |= {
            f"imagenet_{key}": columns[key]
            for key in ("mechanism", "model", "seeds", "low", "high")
        }
        if (known.eps == eps).any() or any(row[f"{prefix}methods"] for prefix in KINDS):
            rows.append(row)
    frame = pd.DataFrame(rows)
    tested = [f"{prefix}p" for prefix in KINDS]
    corrected = holm(frame[tested].to_numpy().T.ravel().tolist())
    frame[tested] = pd.Series(corrected).to_numpy().reshape(len(tested), -1).T
    frame["ahead"] = [_ahead(row) for row in frame.to_dict("records")]
    return frame


def best_of_ours(records: Records) -> Mapping[tuple[str, float, str], Best]:
    """Returns {(data set, eps, prefix of the kind): the best of ours}.

    Those with features from ImageNet are a kind of their own too, with the prefix `imagenet_`.
    """
    methods: dict[tuple[str, float, str], dict[str, list[Record]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in records.values():
        dataset, eps = str(record["dataset"]), float(record["eps"])
        is_whole = dataset in OFFICIAL and record.get("n_test") == TEST_IMAGES
        # The best of several networks by one recipe is luck: all rows use the first.
        is_whole = is_whole and "pretrain.seed" not in record["identity"]
        if is_whole and eps in BUDGETS and record["trust"] in ("local", "central"):
            for prefix in _kinds(record):
                methods[dataset, eps, prefix][all_but_seed(record["identity"])].append(record)
    found = {}
    for place, runs in methods.items():
        averages = [average(same, "accuracy") for same in runs.values()]
        most = max(len(each.kept) for each in averages)
        known = [each for each in averages if len(each.kept) >= min(most, ENOUGH_SEEDS)]
        best = max(known, key=_lower_end)
        rivals = [each.estimate.scaled(100) for each in known]
        found[place] = Best(best.kept[0], best.estimate.scaled(100), rivals)
    return found


def _lower_end(one: Average) -> float:
    """Returns the lower end of the interval: the highest mean would prefer few, lucky seeds."""
    estimate = one.estimate
    has_interval = len(one.kept) >= ENOUGH_SEEDS and not math.isnan(estimate.low)
    return estimate.low if has_interval else estimate.value


def _kinds(record: Record) -> list[str]:
    """Returns the prefixes of the kinds that a record is of."""
    pretrain = record.get("pretrain") or "none"
    if record["trust"] == "central":
        return ["central_"]
    if pretrain == "imagenet":
        return ["features_", "imagenet_"]
    return ["features_" if pretrain != "none" or record["model"] in WITH_FEATURES else ""]


def _printed_columns(key: str, part: pd.DataFrame, eps: float) -> Row:
    unknown = {"value": math.nan, "eps": math.nan, "trust": ""}
    one = part.loc[part.value.idxmax()] if len(part) else unknown
    by = "{paper}, table {table}, {method}".format(**one) if len(part) else ""
    note = f"; {one['note']}" if by and one["note"] else ""
    columns = {"": one["value"], "_eps": one["eps"], "_trust": one["trust"]}
    columns |= {"_here": bool((part.eps == eps).any()), "_by": by + note}
    return {f"{key}{end}": value for end, value in columns.items()}


def _columns(best: Best) -> Row:
    """Returns the method of the best of ours, its interval, and how it was chosen."""
    record = best.record
    identity = record.get("identity", {})
    chosen, looked = chosen_how(identity) if record else ("", False)
    return {
        **{key: record.get(key) for key in METHOD_KEYS},
        "setting": setting_of(identity),
        "widths": widths_of(identity),
        "chosen": chosen,
        "looked": looked,
        "seeds": len(best.estimate.by_seed),
        "epochs": record.get("epochs"),
        "examples": record.get("n_train"),
        "budget": record.get("budget") or (PAPER if record else None),
        "low": best.estimate.low,
        "high": best.estimate.high,
        "methods": len(best.rivals),
    }


def chosen_how(identity: Mapping[str, object]) -> tuple[str, bool]:
    """Returns how a run's settings were chosen, and whether after a look at scores or labels.

    >>> chosen_how({"model": "cnn", "learner": "single_stage", "dataset": "mnist"})
    ('stated beforehand', False)
    """
    found = [
        row
        for row in _choices()
        if all(row[key] in ("", identity.get(key)) for key in row.keys() - {"looked", "chosen"})
    ]
    text = "; ".join(row["chosen"] for row in found)
    return text or "stated beforehand", any(row["looked"] for row in found)


@cache
def _choices() -> list[Row]:
    return pd.read_csv(CHOSEN, keep_default_na=False).to_dict("records")


def _p_of(best: Best, printed: float) -> float:
    """Returns p that ours, or the published value, is ahead, not yet corrected; NaN if unknown.

    Ours is ahead if any of its methods is: the smallest p times their number (Bonferroni). The
    published value is ahead if it is ahead of every method: the largest p. All methods that are at
    least as accurate, else all, share one spread with the published value: choosing favours those
    whose few runs agree by chance.
    """
    if not best.record or math.isnan(printed):
        return math.nan
    known = [each for each in best.rivals if not math.isnan(each.error)]
    alike = pooled([each for each in known if each.value >= printed] or known)
    size = float(best.record["n_test"])
    gaps = [against_printed(each, printed, size, alike) for each in known]
    above = [gap.p for gap in gaps if gap.value > 0]
    if best.estimate.value > printed:
        return min([1.0, *(len(best.rivals) * p for p in above)]) if above else math.nan
    return 1.0 if above else max((gap.p for gap in gaps), default=math.nan)


def _ahead(row: Row) -> str:
    """Returns who is ahead under local privacy; empty where there is nothing to compare."""
    printed = row["printed_local"]
    ours = [
        (kind.name, row[kind.column], row[f"{prefix}p"])
        for prefix, kind in KINDS.items()
        if kind.rival == "printed_local" and not math.isnan(row[kind.column])
    ]
    if not ours or not row["printed_local_here"]:
        return ""
    ahead = [name for name, value, p in ours if is_significant(p) and value > printed]
    is_higher = max(value for _, value, _ in ours) > printed
    tested = [p for *_, p in ours if not math.isnan(p)]
    if ahead:
        return ahead[0]
    if not tested:
        return f"untested, {'ours' if is_higher else 'printed'} is higher"
    return "printed" if not is_higher and all(map(is_significant, tested)) else "unclear"


def parts_of(rows: pd.DataFrame) -> Iterator[Part]:
    """Yields the page: the caption, a table per data set, sources, and how ours were chosen."""
    tests = rows[[f"{prefix}p" for prefix in KINDS]].count().sum()
    yield CAPTION.format(tests=tests)
    for dataset, group in rows.groupby("dataset", sort=False):
        name = data_name_of(str(dataset))
        lines = pd.DataFrame([_line(name, row) for row in group.to_dict("records")])
        yield lines if group.printed_noisy.notna().any() else lines.drop(columns=SAME_NOISE)
        if dataset in REMARKS:
            yield REMARKS[str(dataset)]
    yield "## Sources of the published values"
    yield "\n".join(filter(None, map(_source, rows.to_dict("records"))))
    yield "## How ours were chosen"
    methods: dict[str, dict[str, None]] = defaultdict(dict)
    for row, prefix in itertools.product(rows.to_dict("records"), KINDS):
        if how := row[f"{prefix}chosen"]:
            methods[how][", ".join(_method_names(row, prefix))] = None
    yield "\n".join(f"- {how}: {'; '.join(names)}." for how, names in sorted(methods.items()))


def _line(name: str, row: Row) -> dict[str, str]:
    """Returns {heading: text} of one eps."""
    return {
        name: f"{row['eps']:g}",
        "published, local": _printed_text(row, "local"),
        "published, central": _printed_text(row, "central"),
        **{kind.name: _ours_text(row, prefix) for prefix, kind in KINDS.items()},
        SAME_NOISE: _printed_text(row, "noisy"),
        "ahead": row["ahead"].replace("printed", "published") or "-",
    }


def _source(row: Row) -> str:
    """Returns the papers and tables of a row's published values; empty without any."""
    if not row["printed_central_by"]:  # the best of all, local ones too
        return ""
    stated = [
        f"{where}: {row[f'printed_{where}_by']}"
        for where in ("local", "central", "noisy")
        if row[f"printed_{where}_by"] and row[f"printed_{where}_trust"] == where
    ]
    return f"- {data_name_of(row['dataset'])}, eps={row['eps']:g}: " + "; ".join(stated)


def _printed_text(row: Row, key: str) -> str:
    """Returns a published value, with eps and trust where they are not those of its column."""
    value, eps, trust = (row[f"printed_{key}{end}"] for end in ("", "_eps", "_trust"))
    if math.isnan(value):
        return "-"
    apart = [trust] * (trust != key) + [f"eps={eps:.3g}"] * (eps != row["eps"])
    return f"{value:g}" + (f" ({', '.join(apart)})" if apart else "")


def _ours_text(row: Row, prefix: str) -> str:
    """Returns a mean with its interval and its method."""
    value = row[KINDS[prefix].column]
    if math.isnan(value):
        return "-"
    own = {key: row[f"{prefix}{key}"] for key in ("seeds", "high", "low", "p", "looked")}
    star = prefix == "central_" and value > row["printed_central"] and is_significant(own["p"])
    spread, seeds = f" ± {(own['high'] - own['low']) / 2:.1f}", str(own["seeds"])
    if own["seeds"] < ENOUGH_SEEDS:
        spread, seeds = "", f"{counted([own['seeds']], 'seed')} only"
    epochs, budget, examples = (row[f"{prefix}{key}"] for key in ("epochs", "budget", "examples"))
    how = _method_names(row, prefix)
    how += [f"{epochs:g} epochs"] if epochs and not math.isnan(epochs) else []
    how += [f"budget {budget}"] if budget != PAPER else []
    is_part = examples < OFFICIAL[str(row["dataset"])].n_train
    how += [f"{examples:,.0f} examples"] if is_part else []
    marks = "*" * star + LOOKED * bool(own["looked"])
    return f"{value:.1f}{spread}{marks} ({seeds}) {', '.join(how)}"


def _method_names(row: Row, prefix: str) -> list[str]:
    """Returns mechanism, setting, loss, model and pre-training of a row, as people write them."""
    own = {key: str(row[f"{prefix}{key}"]) for key in (*METHOD_KEYS, "setting", "widths")}
    said = [
        name_of(own["mechanism"]),
        own["setting"],
        "FixMatch" if own["learner"] == "fixmatch" else "",
        own["loss"],
        model_name_of(own["model"]),
        own["widths"],
        features_name_of(own["pretrain"]),
    ]
    return [text for text in said if text not in ("", "none", "nan", "None")]


def write_best_known(records: Records) -> pd.DataFrame:
    """Writes the table as CSV, Markdown and LaTeX; returns its rows."""
    rows = rows_of(records, read_published())
    write_page(STEM, rows, "Best known accuracy", list(parts_of(rows)), digits=6)
    return rows
