"""What the commands for own labels say: plans, help, how long a fit takes, options by name."""

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("verify m.py:f --classes 10 --eps 1 --draws 10", "--draws must be >= 1000, got 10"),
        ("verify m.py:f --classes 1 --eps 1", "--classes must be >= 2, got 1"),
        ("verify m.py:f --classes 2 --eps inf", "--eps must be finite: --eps=inf claims nothing"),
        ("verify m.py:f --classes 2 --eps 1 --calls 0", "--calls must be >= 1, got 0"),
        ("plan --rows 9 --classes 1001 --eps 1 --ordinal", "--classes must be in [2, 1000]"),
        (  # "for the non-private baseline" did not say what becomes of secret labels
            "release s.csv --label y --classes 1,2 --eps 0 --out r.parquet",
            "--eps must be a number > 0, got 0.0 (use --eps=inf for no privacy at all; smaller is",
        ),
        (  # pandas writes 1.0 where a label was missing once; the label is not shown
            "release s.csv --label x --classes 1,2 --eps 1 --out r.parquet",
            "s.csv, row 1, column x: the label is none of 1,2 (it is not shown, as labels are "
            "secret; texts are compared, 1.0 is not 1)",
        ),
        (  # no word of what to do with a spreadsheet
            "release s.xlsx --label y --classes 1,2 --eps 1 --out r.parquet",
            "s.xlsx must end in .csv, .csv.gz, .tsv, .tsv.gz, .parquet (spreadsheets can be saved",
        ),
        (  # "the true label costs eps=inf" did not say what asked for it
            "release s.csv --label y --classes 1,2 --eps 1 --mechanism none --out r.parquet",
            "mechanism none releases the true label, which costs eps=inf, got eps=1 (take another",
        ),
        (  # it was said after the fit, which may take hours
            "fit none.csv --release none.parquet --out /proc/m.skops",
            "cannot write /proc/m.skops: no such file or directory (choose another folder",
        ),
        (  # Spark's folder
            "release d.csv --label y --classes 1,2 --eps 1 --out r.parquet",
            "d.csv is a folder, and must be one file",
        ),
        (
            "fit caf\udce9.csv --release r.parquet --out m.skops",
            r"caf\udce9.csv is not text in UTF-8",
        ),
        ("release s.csv --label y --bounds=1,0 --eps 1 --out r.parquet", "--bounds must be finite"),
        (  # it advised to add a class, which numbers do not have
            "release s.csv --label y --bounds=0,1 --eps 1 --out r.parquet",
            "s.csv, row 2, column y: the label is empty (leave the row out)",
        ),
    ],
)
def test_a_message_names_the_option_as_one_writes_it(
    arguments, message, tmp_path, monkeypatch, capsys
):
    # It named the argument of a Python function that the user of a command has not seen.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").mkdir()
    (tmp_path / "m.py").write_text("def f(labels):\n    return labels\n")
    (tmp_path / "s.csv").write_text("y,x\n1,1.0\n,2.0\n")
    assert main(arguments.split()) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_fit_says_where_releases_tell_nothing(tmp_path, monkeypatch, capsys):
    # "accuracy on new rows: 100.0% (0.0% to 100.0%)" stood there without a word.
    monkeypatch.chdir(tmp_path)
    labels = np.arange(60) % 2
    pd.DataFrame({"x": labels}).to_csv("f.csv", index=False)
    for eps in (0.1, 8.0):
        ldp.privatize(labels, classes=[0, 1], eps=eps, seed=0).save(f"r{eps}.parquet")
        assert main(["fit", "f.csv", "--release", f"r{eps}.parquet", "--out", "m.skops"]) == 0
        said = capsys.readouterr().out
        assert ("nothing can be said" in said) == (eps == 0.1)
        assert ("100.0%" in said) == (eps == 8.0)


def test_plan_and_help(capsys):
    assert main(["plan", "--rows", "20000", "--classes", "3", "--eps", "1"]) == 0
    assert "recommended: rr" in capsys.readouterr().out
    assert main(["plan", "--rows", "20000", "--classes", "100000", "--eps", "1"]) == 2
    assert "--classes must be in [2, 10000], got 100000" in capsys.readouterr().err  # 41 s before
    assert main(["plan", "--rows", "9", "--classes", "9", "--eps", "1", "--ordinal"]) == 0
    for wrong in ("0.9,0.2,0.1", "0.5,0.5", "nan,0.5,0.5"):
        capsys.readouterr()
        assert main(["plan", "--rows", "9", "--classes", "3", "--eps", "1", "--shares", wrong]) == 2
        assert capsys.readouterr().err.startswith("error: --shares must be 3 shares > 0 with sum 1")
    for name in ("plan", "release", "fit", "predict", "verify"):
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert f"  labeldp {name} " in capsys.readouterr().out.partition("Example:")[2]


def test_letters_that_a_console_lacks_end_no_command(tmp_path, monkeypatch):
    # eps was booked and the file written, and then came a UnicodeEncodeError.
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_text("答え\nはい\nいいえ\n", encoding="utf-8")
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    given = ["release", "s.csv", "--label", "答え", "--classes", "はい,いいえ", "--eps", "1"]
    assert main([*given, "--out", "r.parquet"]) == 0
    sys.stdout.flush()
    assert "答え".encode("ascii", "backslashreplace") in sys.stdout.buffer.getvalue()
