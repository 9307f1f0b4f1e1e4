"""The table beside the Gaussian process: paired by seed, corrected within a column."""

from labeldp_bench.reports.statistics import from_seeds
from scripts.features import OURS, by_eps, compared


def test_rivals_are_compared_by_seed_and_what_is_not_run_stays_empty():
    places = [("cifar10", "simclr", 0.2), ("cifar10", "simclr", 0.5)]
    ours = {place: from_seeds({0: 50.0, 1: 60.0, 2: 70.0}) for place in places}
    theirs = {
        places[0]: from_seeds({0: 48.0, 1: 58.1, 2: 67.9}),
        places[1]: from_seeds({0: 70.0, 1: 60.0, 2: 50.0}),
    }
    frame = compared({OURS: ours, "eigenmaps": theirs})
    first, second = frame["eigenmaps"]
    # Unpaired, 2 +- 16 would decide nothing; p of .0008 is doubled, for two comparisons.
    assert first == "58.0 ± 24.7 (3); +2.0 ± 0.2 (3 pairs), p=0.0017"
    assert second.startswith("60.0 ± 24.8 (3); +0.0 ± 49.7") and second.endswith("p=1")
    assert list(frame["probe"]) == ["", ""]


def test_two_settings_of_one_mechanism_stand_in_rows_of_their_own(monkeypatch):
    # LabelDP-Pro without its projection took the place of LabelDP-Pro, seed by seed.
    base = {
        "dataset": "mnist", "model": "ridge", "pretrain": "simclr", "mechanism": "labeldp_pro",
        "loss": None, "eps": 0.1, "draws": 2,
    }  # fmt: skip
    own = {"mechanism": "labeldp_pro"}
    runs = [(own, 0.9), (own | {"learner.projection": "none"}, 0.5)]
    records = {
        f"{accuracy} {seed}": base | {"identity": identity, "accuracy": accuracy, "seed": seed}
        for identity, accuracy in runs
        for seed in range(3)
    }
    monkeypatch.setattr("scripts.features.read_committed", lambda: records)
    found = by_eps().set_index("setting")["0.1"].to_dict()
    assert found == {"": "90.0 ± 0.0 (3)", "no projection": "50.0 ± 0.0 (3)"}
