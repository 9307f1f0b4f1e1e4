"""What the text of vector_approximation says of its figures, in our words.

What a few and many classes are, and how close nearly the same is, is ours.
"""

from papers.checks import Statement, above, falls, flat, within

RIVALS = ("rr", "lp_2st", "alibi")
FIGURE4 = "vector_approximation/figure4"


def is_many(num_classes: float) -> bool:
    """Returns whether there are many classes."""
    return num_classes >= 40


IS_AHEAD = "rappor > rr, lp_2st, alibi for K >= 40"
FIGURE_2 = (
    Statement(
        "With few classes the vector approximation is nearly as accurate as the others.",
        "section 5.1",
        "rappor within 1 of rr, lp_2st, alibi for K <= 10",
        lambda lines: within(1, lines, "rappor", RIVALS, lambda k: k <= 10),
        panels=["0.05"],
    ),
    Statement(
        "With many classes it has a clear advantage over all others.",
        "section 5.1",
        IS_AHEAD,
        lambda lines: above(lines, "rappor", RIVALS, is_many),
        panels=["0.05"],
    ),
    Statement(
        "At a fixed sigma its accuracy still falls with K, as neighbouring classes overlap more.",
        "section 5.1",
        "rappor falls for K >= 20",
        lambda lines: falls(lines, "rappor", lambda k: k >= 20),
        panels=["0.05"],
    ),
    Statement(
        "With sigma=2/K its accuracy stays stable as K grows.",
        "section 5.1",
        "rappor flat within 5 for K >= 10",
        lambda lines: flat(5, lines, "rappor", lambda k: k >= 10),
        panels=["2/K"],
    ),
    Statement(
        "The same where a class has no fewer examples than k, N/K >= 200 (our restriction).",
        "section 5.1",
        "rappor flat within 5 for K = 10, 20, 30, 40, 50",
        lambda lines: flat(5, lines, "rappor", lambda k: 10 <= k <= 50),
        panels=["2/K"],
    ),
    Statement(
        "In general it improves on the others where there are many classes.",
        "section 5.1",
        IS_AHEAD,
        lambda lines: above(lines, "rappor", RIVALS, is_many),
    ),
)
FIGURE_3 = (
    Statement(
        "With the larger eps every method is better (compared here at the same k, with Figure 4).",
        "appendix A",
        f"rr, lp_2st, alibi, rappor > the same in {FIGURE4} for K >= 20",
        lambda lines: (
            gap
            for name in (*RIVALS, "rappor")
            for gap in above(lines, name, [f"{name} ({FIGURE4})"], lambda k: k >= 20)
        ),
        other=FIGURE4,
    ),
    Statement(
        "The vector approximation still beats the others.",
        "appendix A",
        IS_AHEAD,
        lambda lines: above(lines, "rappor", RIVALS, is_many),
    ),
)
FIGURE_4 = (
    Statement(
        "Other parameters too show it ahead of the others where there are many classes.",
        "section 5.1 on appendix A",
        IS_AHEAD,
        lambda lines: above(lines, "rappor", RIVALS, is_many),
    ),
)
