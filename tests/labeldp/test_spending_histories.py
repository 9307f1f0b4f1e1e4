"""Random histories of releases, held against a plain ledger: never too little."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from labeldp.manifest import Manifest, Unit
from labeldp.spending import Earlier, Spending


def in_all(values, unit):
    """Returns what each of four persons of three rows has spent, from what his rows say."""
    by_person = values.reshape(4, 3)
    return by_person.sum(1) if unit is None else by_person.max(1)


@pytest.mark.parametrize("are_lost", [False, True])
@pytest.mark.parametrize("by_person", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_random_histories_never_count_too_little(seed, by_person, are_lost):
    # Tables of some rows only, files that are elsewhere for a while: held against a plain ledger.
    stream = np.random.default_rng(seed)
    persons, unit, files = np.arange(12) // 3, None, []
    ledger = np.zeros(4 if by_person else 12)
    for number in range(8):
        if by_person and (number == 4 or stream.random() < 0.2):
            unit = Unit("who", 2)  # from now on, as a release of rows would be refused
        share = 1 if by_person and not are_lost else 0.7  # else rows of a person may be unseen
        rows = np.flatnonzero(stream.random(12) < share)
        here = [each for each in files if not are_lost or stream.random() < 0.8]
        found = Spending(here, rows, persons[rows] if unit else None)
        kept = ~unit_rows_beyond(persons[rows], unit)
        eps = float(stream.integers(1, 4))
        manifest = replace(Manifest("rr", {}, eps, ("a", "b")), counted=found.counted, unit=unit)
        files.append(Earlier(rows[kept], found.eps[kept] + eps, manifest))
        own = np.where(np.isin(np.arange(12), rows[kept]), eps, 0.0)
        ledger += in_all(own, unit) if by_person else own
    total = Spending(files, np.arange(12), persons if by_person else None).eps
    total = total[::3] if by_person else total
    assert (total >= ledger).all()
    assert are_lost or np.array_equal(total, ledger)


def unit_rows_beyond(who, unit):
    """Returns which rows are beyond the most that a person may have."""
    place = pd.Series(who).groupby(who).cumcount().to_numpy()
    return place >= (unit.most_rows if unit else 12)


@pytest.mark.parametrize("by_person", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_deleted_files_that_were_counted_are_not_forgotten(seed, by_person):
    # Each release sees all files before it; then all but some of the last ones are deleted.
    stream = np.random.default_rng(seed)
    persons, files = np.arange(12) // 3, []
    ledger = np.zeros(4 if by_person else 12)
    for number in range(6):
        unit = Unit("who", 3) if by_person and number > 2 else None
        found = Spending(files, np.arange(12), persons if unit else None)
        rows = np.flatnonzero(stream.random(12) < 0.6) if number < 5 else np.arange(12)
        manifest = replace(Manifest("rr", {}, 1.0, ("a", "b")), counted=found.counted, unit=unit)
        files.append(Earlier(rows, found.eps[rows] + 1, manifest))
        own = np.isin(np.arange(12), rows).astype(float)
        ledger += in_all(own, unit) if by_person else own
    left = [each for each in files[:-1] if stream.random() < 0.5] + files[-1:]
    total = Spending(left, np.arange(12), persons if by_person else None).eps
    total = total[::3] if by_person else total
    assert (total >= ledger).all()
    assert by_person or np.array_equal(total, ledger)
