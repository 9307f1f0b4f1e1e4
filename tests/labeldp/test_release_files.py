"""Files of releases: what is not written, not read and not replaced."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp.manifest import Manifest
from labeldp.named_mechanisms import CLASS_MECHANISMS, REAL_MECHANISMS
from labeldp.support.validate import InputError

CLASSES = ["no", "yes", "refused", "other"]
LABELS = np.random.default_rng(0).choice(CLASSES, 400)


def released():
    return ldp.privatize(LABELS, classes=CLASSES, eps=1.0, seed=0)


def test_a_file_of_another_release_is_not_replaced(tmp_path):
    # After a restart nothing is remembered: the first release, maybe handed out, would not count.
    path = tmp_path / "r.parquet"
    first = ldp.privatize(["a", "b"] * 50, classes=["a", "b"], eps=1.0, seed=1)
    first.save(path)
    first.save(path)
    before = path.read_bytes()
    second = ldp.privatize(["a", "b"] * 50, classes=["a", "b"], eps=1.0, seed=2)
    with pytest.raises(InputError, match=r"r\.parquet holds another release"):
        second.save(path)
    assert path.read_bytes() == before


def test_a_part_of_a_release_does_not_replace_the_whole(tmp_path):
    # The rows left out would count as never released, and a second release of them as the first.
    path, release = tmp_path / "r.parquet", released()
    release[:10].save(path)
    release.save(path)  # more rows lose nothing
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"r\.parquet holds 390 rows of this release that are not"):
        release[10:0:-1].save(path)
    assert path.read_bytes() == before
    release[::-1].save(path)
    assert len(ldp.load_release(path)) == 400


@pytest.mark.parametrize("name", ["r.csv", "r", "r.parquet.bak"])
def test_a_name_that_says_no_parquet_is_refused(name, tmp_path):
    # `labeldp release` would not find it beside its output, and count too little as spent.
    with pytest.raises(InputError, match=r"whose name must end in \.parquet, got .*" + name):
        released().save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_list_that_is_longer_than_the_classes_is_refused_before_it_fills_the_memory(tmp_path):
    # 576 kB asked for 3.27 TiB.
    classes = [f"c{number}" for number in range(400)]
    given = {"classes": classes, "eps": 8.0, "mechanism": "subset_selection", "seed": 0}
    release = ldp.privatize(["c1"] * 300, parameters={"size": 2}, **given)
    release.save(tmp_path / "r.parquet")
    table = pq.read_table(tmp_path / "r.parquet")
    long = 3_000_000
    ends = np.array([0] + [long] * 300, np.int32)
    column = pa.ListArray.from_arrays(ends, np.zeros(long, np.int32))
    pq.write_table(table.set_column(1, "released", column), tmp_path / "bomb.parquet")
    with pytest.raises(InputError, match="more than 400 entries"):
        ldp.load_release(tmp_path / "bomb.parquet")


@pytest.mark.parametrize("name", [*CLASS_MECHANISMS, *REAL_MECHANISMS])
@pytest.mark.parametrize("eps", [20.0, 30.0, 80.0, 700.0, 740.0, 745.0, 746.0])
def test_what_is_saved_at_a_large_eps_can_be_loaded(name, eps, tmp_path):
    of = {"bounds": (0, 1)} if name in REAL_MECHANISMS else {"classes": [0, 1, 2]}
    labels, ledger, path = [0, 1] * 20, ldp.Ledger(tmp_path / "ledger"), tmp_path / "r.parquet"
    try:
        ldp.privatize(labels, eps=eps, mechanism=name, ledger=ledger, **of).save(path)
    except InputError as error:
        assert "eps" in str(error) and "\n" not in str(error)
        assert not ledger.entries()
    else:
        assert ldp.load_release(path).manifest.eps == eps


@pytest.mark.parametrize("drawn", [True, False])
def test_answers_of_persons_with_many_rows_can_be_loaded(drawn, tmp_path):
    # Their eps add up to more than one mechanism may have, and the file was refused.
    design, labels = ldp.designs.warner(p=0.999), ["no", "yes"] * 100
    persons, ledger = ["one"] * 200, ldp.Ledger(tmp_path / "ledger")
    if drawn:
        release = ldp.privatize(labels, design=design, persons=persons, ledger=ledger)
    else:
        release = ldp.Release.from_answers(labels, design, persons=persons)
    release.save(tmp_path / "r.parquet")
    loaded = ldp.load_release(tmp_path / "r.parquet")
    assert loaded.manifest == release.manifest and loaded.manifest.eps == 200 * design.eps > 700


@pytest.mark.parametrize("eps", ["2000", "-1", "true", "NaN", '"1"', "null"])
def test_a_manifest_with_an_eps_that_no_mechanism_has_is_refused(eps):
    text = ldp.privatize(["a", "b"], ["a", "b"], 1.0, seed=0).manifest.to_json()
    with pytest.raises(InputError, match="eps must be"):
        Manifest.from_json(text.replace('"eps": 1.0', f'"eps": {eps}', 1))
