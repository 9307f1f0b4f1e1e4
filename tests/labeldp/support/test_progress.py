"""Progress in a log: a line a minute, with what is left."""

from itertools import count

from labeldp.support.progress import ProgressLines, progress_bar


def test_without_a_terminal_there_is_a_line_a_minute(capsys):
    seconds = count(0, 25)  # every look at the clock, 25 seconds later
    assert list(ProgressLines("abcdefgh", 8, "letters", lambda: next(seconds))) == list("abcdefgh")
    assert capsys.readouterr().err.splitlines() == [
        "  letters: 3 of 8, about 2 min left",
        "  letters: 6 of 8, about 50 s left",
    ]


def test_what_is_short_says_nothing(capsys):
    assert list(progress_bar(range(3), 3, "steps")) == [0, 1, 2]
    with progress_bar(None, 10, "bytes") as bar:
        bar.update(4)
    assert list(progress_bar(range(2), 2, "steps", shown=False)) == [0, 1]
    assert capsys.readouterr().err == ""
