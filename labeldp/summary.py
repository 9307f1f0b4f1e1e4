"""What a person wants to know of a release, in a few lines."""

from labeldp.law import chance_of_change
from labeldp.manifest import Manifest

SEEDED = "the noise has a seed: for tests only, as who knows it can undo the noise"


def summary_of(manifest: Manifest, size: int, eps_spent: float) -> str:
    """Returns the lines.

    Args:
        manifest: of the release.
        size: how many rows it has.
        eps_spent: what the worst-off label, or person, has spent on all releases so far.
    """
    each = f"eps={manifest.row_eps:g} each" if manifest.unit else f"eps={manifest.eps:g}"
    lines = [f"{size:,} labels released by {manifest.mechanism}, {each}"]
    if manifest.row_eps == float("inf"):
        lines.append("eps=inf is no privacy: these are the true labels (keep the file)")
    elif manifest.classes:
        share = chance_of_change(manifest.class_mechanism(), len(manifest.classes))
        lines.append(
            f"the best guess from a release is another class for about "
            f"{100 * share:.0f} % of the rows ({share * size:,.0f})"
        )
    if manifest.unit:
        lines.append(
            f"a {manifest.unit.column} has at most {manifest.unit.most_rows} "
            f"row{'s' if manifest.unit.most_rows > 1 else ''} here, and "
            f"spends at most eps={manifest.eps:g} on them"
        )
    if eps_spent > manifest.eps * (1 + 1e-9):
        lines.append(f"with earlier releases of the same rows: eps={eps_spent:g} spent")
    if manifest.noise != "secret":
        lines.append(SEEDED)
    return "\n".join(lines)


def unprotected(manifest: Manifest) -> str | None:
    """Returns why eps protects nobody here, for all who print it; None if it does."""
    if manifest.row_eps == float("inf"):
        return "eps=inf is no privacy: the release holds the true labels"
    return SEEDED if manifest.noise != "secret" else None
