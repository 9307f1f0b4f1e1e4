"""What a run shows when it ends."""

from pathlib import Path
from typing import Any

from labeldp.support.progress import duration, say
from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.experiments.identity import SEEDED
from labeldp_bench.records.record import is_heuristic, read_record
from labeldp_bench.reports.naming import counted
from labeldp_bench.reports.statistics import score_of

MOST_CLASSES_SHOWN = 20


def show_run(folder: Path) -> None:
    """Prints the outcome of one run."""
    record = read_record(folder)
    sem = record.get("accuracy_sem")
    spread = f" ± {100 * sem:.2f} (standard error, {record['trials']} trials)" if sem else ""
    budget = "no privacy" if not record["private"] else f"eps spent {record['eps_spent']:g}"
    if record["private"] and record.get("test_mse") is not None and record["trials"] > 1:
        budget += f" by {record['trials']} trials on the same labels"
    privacy = f"{budget}, delta {record['delta']:g}, trust: {record['trust']}"
    if is_heuristic(record):
        share = score_of(record, "response_accuracy")
        privacy = f"{NO_GUARANTEE}, trust: none"
        privacy += "" if share is None else f"; response accuracy {100 * share:.2f} %"
    lines = [
        *_score_lines(record, spread),
        f"privacy         {privacy}",
    ]
    if record["private"]:
        lines.append(
            f"noise           from the public seed {record['seed']}: repeatable, which protects no "
            "secret label"
            if record.get("noise", SEEDED) == SEEDED
            else "noise           secret: no seed of it exists"
        )
    if record.get("bayes_accuracy"):
        lines.insert(1, f"Bayes limit     {100 * record['bayes_accuracy']:.2f} %")
    is_secret = record.get("noise", SEEDED) != SEEDED  # a dash names a class without an example
    if record.get("bayes_accuracy") is None and record["per_class_accuracy"] and not is_secret:
        lines.append(f"per class       {_per_class(record['per_class_accuracy'])}")
    is_tuned = any(key.startswith("tuned") for key in record.get("notes", {}))
    at_most = "at most " if is_tuned else ""
    if record.get("budget") == "smoke":
        lines.append("budget          smoke: a check that everything runs, not a result")
    lines += [
        f"trained on      {record['n_train']:,} examples, tested on {record['n_test']:,}"
        + (f", {at_most}{counted([record['epochs']], 'epoch')}" if record["epochs"] else "")
        + f", {duration(record['wall_seconds'])} on {record['device']}, {record['precision']}",
        f"record          {folder / 'record.json'}",
    ]
    say("\n".join(lines))


def _squared(value: float) -> str:
    """Returns an error in squared units of the label, which may be large or small."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _score_lines(record: dict[str, Any], spread: str) -> list[str]:
    """Returns accuracies, or the excess risk and its parts, or the squared error and its share."""
    if record.get("test_mse") is not None:
        mse, sem, variance = (record[f"test_{key}"] for key in ("mse", "mse_sem", "variance"))
        if not variance:  # test labels that are all alike
            return [f"test MSE        {_squared(mse)}"]
        error = f" ± {_squared(sem)} (standard error, {record['trials']} trials)" if sem else ""
        share = f"{100 * mse / variance:.1f} % of the variance of the test labels"
        return [
            f"test MSE        {_squared(mse)}{error}",
            f"that is         {share}, {_squared(variance)}",
        ]
    if record.get("excess_risk") is None:
        lines = [
            f"accuracy        {100 * record['accuracy']:.2f} %{spread}",
            f"class average   {100 * record['per_class_mean']:.2f} %",
        ]
        if record.get("auc") is not None:  # where a class may be rare
            precision = record["average_precision"]
            lines.append(f"AUC             {record['auc']:.4f}, average precision {precision:.4f}")
        return lines
    risk, sem, bias = (record[key] for key in ("excess_risk", "excess_risk_sem", "bias"))
    error = f" ± {sem:.2g} (standard error, {record['trials']} trials)" if sem else ""
    parts = f"{bias:.4g} and {record['variance']:.4g}" if bias is not None else "from two trials on"
    return [f"excess risk     {risk:.4g}{error}", f"bias, variance  {parts}"]


def _per_class(accuracies: list[float | None]) -> str:
    """Returns each class's accuracy in percent, or of many classes the lowest to the highest."""
    if len(accuracies) <= MOST_CLASSES_SHOWN:
        shown = ("-" if each is None else f"{100 * each:.1f}" for each in accuracies)
        return "  ".join(f"{text:>5}" for text in shown)
    seen = [(100 * each, number) for number, each in enumerate(accuracies) if each is not None]
    (low, worst), (high, best) = min(seen), max(seen)
    return f"from {low:.1f} (class {worst}) to {high:.1f} (class {best}); all in per_class.csv"
