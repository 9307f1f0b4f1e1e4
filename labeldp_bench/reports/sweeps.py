"""A sweep as numbers and as Markdown: averages over seeds, and names for its lines."""

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pandas as pd

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.record import Record, is_heuristic
from labeldp_bench.reports.naming import counted, data_name_of, name_of, setting_of
from labeldp_bench.reports.rendering import Part, lines_over_x, number_text, with_errors
from labeldp_bench.reports.statistics import (
    ENOUGH_SEEDS,
    LEVEL,
    OLDER,
    PLUS_MINUS,
    Pair,
    SeedsEstimate,
    average,
    differences,
    left_out,
    newest,
    score_of,
    without_zeros,
)

RISKS = {"excess_risk": "excess risk", "test_mse": "test MSE"}
"""Fields of records that take the place of accuracy where there are no classes to predict."""
MOST_DIFFERENCES = 30
"""Of more only the significant ones are counted."""
X_LABELS = {"eps": "privacy budget eps", "dataset.num_classes": "number of classes K"}
FIRST = (
    "dataset", "mechanism", "mechanism.eps", "learner.loss", "model", "learner", "pretrain",
    "budget",
)  # fmt: skip
"""Keys that determine others, in the order in which a name mentions them."""
BARE = ("loss", "model")
"""Keys that a name leaves out, since their values are clear without them."""
COLUMNS = (
    "panel", "series", "mechanism", "x", "accuracy", "bayes", "trust", "private", "agreement",
    "n_train", "epochs", "trials", "error", "seeds", OLDER, "x_name", "setting", "published",
)  # fmt: skip
Identity = dict[str, object]


def sweep_frame(
    records: Sequence[Record], published: Mapping[str, float] = MappingProxyType({})
) -> pd.DataFrame:
    """Returns one row per point of the sweep, averaged over seeds.

    Columns: `COLUMNS`; accuracy, error and bayes are fractions, error is half the width of the
    95 % t interval, published is in percent, and there is no column `older` where no run is left
    out.

    Args:
        records: of the sweep.
        published: {config_hash: what a paper prints for it}, in percent.
    """
    x_name, points = _points(records)
    rows = []
    for place, same in points.items():
        found = average(same, "accuracy")
        one = found.kept[0]
        rows.append(
            (*place, found.estimate.value, one.get("bayes_accuracy"), one["trust"],
             not is_heuristic(one), score_of(one, "response_accuracy"), one.get("n_train"),
             one.get("epochs"), one.get("trials"), found.estimate.half_width,
             len(found.estimate.by_seed), found.older, x_name, setting_of(one["identity"]),
             published.get(str(one.get("config_hash")), math.nan))
        )  # fmt: skip
    return without_zeros(pd.DataFrame(rows, columns=COLUMNS))


def _points(
    records: Sequence[Record],
) -> tuple[str, dict[tuple[str, str, str, float], list[Record]]]:
    """Returns the key on x, and the records of each (panel, series, mechanism, x)."""
    x_name = _x_axis(records)
    panels = _panels(records, x_name)
    points: dict[tuple[str, str, str, float], list[Record]] = defaultdict(list)
    for record, panel, series in zip(
        records, panels, _series(records, panels, x_name), strict=True
    ):
        x = float(record["eps"] if x_name == "eps" else record["identity"][x_name])
        points[panel, series, record["mechanism"], x].append(record)
    return x_name, points


def sweep_differences(records: Sequence[Record]) -> pd.DataFrame:
    """Returns the accuracy of one method less another's, seed by seed, in percentage points.

    Columns: panel, x, one, other (series of `sweep_frame`) and `statistics.TESTED`; a row for each
    two methods at one x that share `ENOUGH_SEEDS` seeds. Empty without any.
    """
    at: dict[tuple[str, float], dict[str, SeedsEstimate]] = defaultdict(dict)
    for (panel, series, _, x), same in _points(records)[1].items():
        at[panel, x][series] = average(same, "accuracy").estimate.scaled(100)
    pairs = [
        Pair({"panel": panel, "x": x, "one": one, "other": other}, found[one], found[other])
        for (panel, x), found in at.items()
        for one, other in itertools.combinations(found, 2)
        if len(found[one].by_seed.keys() & found[other].by_seed) >= ENOUGH_SEEDS
    ]
    return differences(pairs) if pairs else pd.DataFrame()


def difference_parts(frame: pd.DataFrame, points: pd.DataFrame) -> list[Part]:
    """Returns a caption and a table of `sweep_differences`; none of an empty one.

    Args:
        frame: what was tested.
        points: the `sweep_frame` of the same records, for the names of the methods.
    """
    if frame.empty:
        return []
    caption = (
        f"Differences in percentage points, seed by seed: paired t test, p after Holm's correction "
        f"for {counted([len(frame)], 'comparison')}; significant: p < {LEVEL:g}"
    )
    if len(frame) > MOST_DIFFERENCES:
        return [f"{caption}: {frame.significant.sum()}. Fewer methods or eps= show each."]
    names = {
        (panel, series): name
        for panel, own in points.groupby("panel")
        for series, name in as_lines(own)[["series", "name"]].itertuples(index=False)
    }
    x_name = points.x_name.iloc[0]
    rows = [
        {
            "data": row.panel,
            X_LABELS.get(x_name, x_name): f"{row.x:g}",
            "methods": f"{names[row.panel, row.one]} - {names[row.panel, row.other]}",
            "difference": f"{row.difference:+.2f}",
            "95 % interval": number_text(row.difference_low, "{:+.2f}")
            + number_text(row.difference_high, " to {:+.2f}", unknown=""),
            "seeds": str(row.pairs),
            "p": number_text(row.p, "{:.2g}"),
            "significant": "yes" if row.significant else "no",
        }
        for row in frame.itertuples()
    ]
    return [caption, pd.DataFrame(rows)]


def risk_frame(records: Sequence[Record], score: str) -> pd.DataFrame:
    """Returns one row per point of a sweep, averaged over seeds.

    Columns: dataset, mechanism and what else tells rows apart, trust, eps, one of `RISKS`, its
    error as in `sweep_frame`, seeds.
    """
    own = [
        _without(record["identity"], _budgets(record["identity"])) | {"eps": float(record["eps"])}
        for record in records
    ]
    named = ("dataset", "mechanism")
    names = _short([*named, *(key for key in _telling(own) if key not in (*named, "eps"))])
    points: dict[str, list[Record]] = defaultdict(list)
    for left, record in zip(own, records, strict=True):
        points[json.dumps(left)].append(record)
    rows = []
    for text, same in points.items():
        left, found = json.loads(text), average(same, score)
        one, mean = found.kept[0], found.estimate
        rows.append(
            {n: _spelled(left[key]) if key in left else "default" for key, n in names.items()}
            | {"trust": one["trust"], "eps": one["eps"], score: mean.value}
            | {"error": mean.half_width, "seeds": len(found.kept), OLDER: found.older}
        )
    return without_zeros(pd.DataFrame(rows))


def risk_parts(frame: pd.DataFrame, score: str) -> list[Part]:
    """Returns a table, a row per point of `risk_frame`."""
    shown = frame.assign(
        **{score: [f"{mean:.4g}" for mean in frame[score]]},
        error=[number_text(error, "{:.2g}") for error in frame.error],
    )
    shown = shown.drop(columns=OLDER, errors="ignore")
    names = {score: RISKS[score], "error": "±"}
    shown = shown.assign(eps=[f"{eps:g}" for eps in frame.eps])
    return [shown.rename(columns=names).map(str), *left_out(frame)]


def sweep_parts(frame: pd.DataFrame) -> list[Part]:
    """Returns captions and tables: a row per series, a column per x, percent ± half-width.

    Methods without a guarantee have a table of their own, apart from private ones.
    """
    x_name = X_LABELS.get(frame.x_name.iloc[0], frame.x_name.iloc[0])
    parts: list[Part] = []
    for panel, points in frame[frame.private].groupby("panel", sort=False):
        rows = as_lines(points)
        columns = sorted(rows.x.dropna().unique()) or [math.inf]
        table = lines_over_x(rows, columns, [f"{x:g}" for x in columns])
        parts += [f"{panel}: accuracy in percent", table.rename_axis(x_name).reset_index()]
    for panel, points in frame[~frame.private].groupby("panel", sort=False):
        rows = as_lines(points)
        columns_of_bare = {
            NO_GUARANTEE: rows.name,
            x_name: [f"{x:g}" for x in points.x],
            "accuracy": with_errors(rows),
            "response accuracy": [
                number_text(share, "{:.2f}") for share in 100 * points.agreement.astype(float)
            ],
        }
        parts += [f"{panel}: {NO_GUARANTEE}; in percent", pd.DataFrame(columns_of_bare)]
    return [*parts, *left_out(frame)]


def settings(records: Sequence[Record]) -> str:
    """Returns what the runs of a sweep were, a line per data set, for below their table."""
    lines = []
    for name in dict.fromkeys(record["dataset"] for record in records):
        own = [record for record in records if record["dataset"] == name]
        nouns = {"n_train": "training example", "n_test": "test example"}
        nouns |= {"epochs": "epoch", "trials": "trial"}
        found = {what: [record[key] for record in own if record.get(key)]
                 for key, what in nouns.items()}  # fmt: skip
        # Of each point: those of one need not be as many as those of another.
        points: dict[str, list[Record]] = defaultdict(list)
        for record in own:
            points[all_but_seed(record["identity"])].append(record)
        found["seed"] = [len({each["seed"] for each in newest(same)}) for same in points.values()]
        parts = [counted(numbers, what) for what, numbers in found.items() if numbers]
        parts.append(f"model {', '.join(dict.fromkeys(str(record['model']) for record in own))}")
        budgets = {str(record.get("budget") or PAPER) for record in own} - {PAPER}
        parts += [f"budget {budget}" for budget in sorted(budgets)]
        lines.append(f"- {data_name_of(str(name))}: {', '.join(parts)}.")
    if any(record.get("budget") == "smoke" for record in records):
        lines.append("- budget=smoke only checks that everything runs: its numbers are no results.")
    if any(_errors(record) for record in records) or len({r["seed"] for r in records}) > 1:
        lines.append(f"- {PLUS_MINUS}")
    return "\n".join(lines)


def caption_of(frame: pd.DataFrame) -> str:
    """Returns how many examples, epochs, trials and seeds a sweep has, and what its bars are."""
    nouns = {"n_train": "training example", "epochs": "epoch", "trials": "trial", "seeds": "seed"}
    known = {noun: frame[key].dropna().astype(float) for key, noun in nouns.items()}
    runs = ", ".join(counted(numbers, noun) for noun, numbers in known.items() if len(numbers))
    bars = "Bands or bars: 95 % t intervals over seeds, or over the trials of one seed."
    return f"{runs}. {bars if frame.error.notna().any() else 'One run per point: no interval.'}"


def _errors(record: Record) -> bool:
    """Returns whether a record has a standard error over its own trials."""
    return any(record.get(f"{score}_sem") is not None for score in ("accuracy", *RISKS))


def as_lines(points: pd.DataFrame) -> pd.DataFrame:
    """Returns the points of one panel as `plotting.draw_lines` and `lines_over_x` take them.

    Adds y, error and bayes in percent, line, and name (for people); x is missing where no
    budget limits a point (see `is_free`).
    """
    percent = {key: 100 * points[key].astype(float) for key in ("error", "bayes")}
    names = {}
    for series, line in points.groupby("series"):
        mechanism, *rest = str(series).split(", ")
        guarded = line.private.iloc[0] or mechanism == "none"
        central = ["central"] * bool((line.trust == "central").any())
        marks = [*([] if guarded else [NO_GUARANTEE]), *central]
        known = [line.setting.iloc[0]] if line.setting.nunique() == 1 else []
        names[series] = ", ".join(filter(None, [name_of(mechanism), *known, *rest, *marks]))
    return points.assign(
        line=points.series, name=points.series.map(names), y=100 * points.accuracy,
        x=points.x.where(~is_free(points)), **percent,
    )  # fmt: skip


def is_free(points: pd.DataFrame) -> pd.Series:
    """Returns which points are at x=inf because their method has no budget at all."""
    return points.x.map(math.isinf) & ((points.mechanism == "none") | ~points.private)


def _x_axis(records: Sequence[Record]) -> str:
    """Returns the key on x: the budget if it varies, else the number of classes if that varies."""
    budgets = {record["eps"] for record in records if math.isfinite(float(record["eps"]))}
    classes = {(r["dataset"], r["identity"].get("dataset.num_classes")) for r in records}
    varied = len(classes) > len({record["dataset"] for record in records})
    return "dataset.num_classes" if len(budgets) <= 1 and varied else "eps"


def _panels(records: Sequence[Record], x_name: str) -> list[str]:
    """Returns for each record its data set, the data settings that vary, and eps if only one."""
    keys = {}
    for name in {record["dataset"] for record in records}:
        varying = _varying([r["identity"] for r in records if r["dataset"] == name])
        keys[name] = [k for k in varying if k.split(".")[0] == "dataset" and k != x_name]
    eps = {float(r["eps"]) for r in records if r["mechanism"] != "none" and not is_heuristic(r)}
    fixed = [f"eps={next(iter(eps)):g}"] if len(eps) == 1 else []
    panels = []
    for name, identity in ((record["dataset"], record["identity"]) for record in records):
        own = [key for key in keys[name] if key in identity]
        own = [f"{key.removeprefix('dataset.')}={_spelled(identity[key])}" for key in own]
        panels.append(", ".join([data_name_of(name), *own, *fixed]))
    return panels


def _series(records: Sequence[Record], panels: Sequence[str], x_name: str) -> list[str]:
    """Returns for each record its mechanism and the settings that separate its lines in a panel.

    Settings that follow from x, as the parameters that a paper states for each eps, separate none.
    """
    lines = defaultdict(list)
    for number, (record, panel) in enumerate(zip(records, panels, strict=True)):
        lines[panel, record["mechanism"]].append(number)
    names = [record["mechanism"] for record in records]
    for numbers in lines.values():
        own = []
        at_x: dict[object, list[Identity]] = defaultdict(list)
        for number in numbers:
            identity = records[number]["identity"]
            data = {key for key in identity if key.split(".")[0] == "dataset"}
            # If x is not eps, one panel may have eps=inf and a finite eps: the name must say which.
            on_x = _budgets(identity) if x_name == "eps" else set()
            own.append(_without(identity, data | on_x))
            x = records[number]["eps"] if x_name == "eps" else identity[x_name]
            at_x[x].append(own[-1])
        telling = {key: None for same in at_x.values() for key in _telling(same)}
        short = _short([key for key in _varying(own) if key in telling])
        for number, left in zip(numbers, own, strict=True):
            for key, name in short.items():
                if key in left:
                    said = _spelled(left[key])
                    names[number] += f", {said}" if name in BARE else f", {name}={said}"
    return names


def _budgets(identity: Identity) -> set[str]:
    """Returns the budget's key, and those of a learner that follow it."""
    eps = identity.get("mechanism.eps")
    return {key for key, value in identity.items() if key.endswith(".eps") and value == eps}


def _without(identity: Identity, keys: set[str]) -> Identity:
    return {key: value for key, value in identity.items() if key not in keys | {"seed"}}


def _varying(identities: Sequence[Identity]) -> list[str]:
    """Returns the keys with several values: keys of `FIRST` first, lists and classes last."""
    keys = {key for identity in identities for key in identity}
    values = {key: {_value(each, key) for each in identities} for key in keys}

    def place(key: str) -> tuple[int, bool, str]:
        is_list = any(text.startswith("[[") for text in values[key])
        is_class = any(other.startswith(f"{key}.") for other in keys)
        return FIRST.index(key) if key in FIRST else len(FIRST), is_list or is_class, key

    return sorted((key for key in keys if len(values[key]) > 1), key=place)


def _value(identity: Mapping[str, object], key: str) -> str:
    return json.dumps([identity[key]] if key in identity else [])


def _telling(identities: Sequence[Identity]) -> list[str]:
    """Returns as few keys as separate all identities that differ."""
    keys: list[str] = []
    found = 1
    for key in _varying(identities):
        groups = {tuple(_value(each, known) for known in (*keys, key)) for each in identities}
        if len(groups) > found:
            keys, found = [*keys, key], len(groups)
    return keys


def _short(keys: Sequence[str]) -> dict[str, str]:
    """Returns {key: key without its groups}; the whole key where short names would collide."""
    last = Counter(key.split(".")[-1] for key in {*keys, "mechanism.eps"})
    return {key: key if last[key.split(".")[-1]] > 1 else key.split(".")[-1] for key in keys}


def _spelled(value: object) -> str:
    """Returns a value of an identity as text without commas, which separate keys."""
    if isinstance(value, dict):
        own = " ".join(f"{key}={_spelled(v)}" for key, v in value.items() if key != "_target_")
        return value.get("_target_", "") + f"({own})" * bool(own)
    if isinstance(value, list):
        return f"[{' '.join(map(_spelled, value))}]"
    return "null" if value is None else str(value)
