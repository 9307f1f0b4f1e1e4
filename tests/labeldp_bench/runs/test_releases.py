"""What leaves a run: releases for another process, and neither secret noise nor true labels."""

import json
import multiprocessing
import re

import numpy as np
import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.data.images import hash_of_images, read_npz
from labeldp_bench.data.official import OFFICIAL, OfficialData
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.changed_data import _compare_public
from labeldp_bench.runs.environment import NOTE, Environment, refuse_other_releases
from labeldp_bench.runs.job import run_cells
from labeldp_bench.runs.release_io import read_releases, write_releases
from labeldp_bench.runs.release_only import release_only
from labeldp_bench.runs.run import open_store
from tests.conftest import TINY_CIRCLE
from tests.shell import TIMED

OF_LABELS = {"released_agreement", "response_accuracy"}


def environment(folder, data, releases=None):
    return Environment(folder, data, torch.device("cpu"), releases=releases)


def record(cell, where):
    """The record of a run, and why it failed."""
    errors = []
    run_cells([cell], where, lambda cell, folder, error: errors.append(str(error)))
    path = where.out_dir / cell.folder / "record.json"
    return json.loads(path.read_text()) if path.is_file() else None, errors


@pytest.fixture
def without_labels(tiny_images, tmp_path):
    """A folder with the same images, and no training labels."""
    folder = tmp_path / "unlabelled"
    folder.mkdir()
    with np.load(tiny_images / "tiny.npz") as arrays:
        kept = {name: arrays[name] for name in arrays.files if name != "y_train"}
    np.savez(folder / "tiny.npz", **kept)
    return folder


OWN = {"blockrr": ["learner.fraction=0.2"], "rr": ["learner=fixmatch"]}


@pytest.mark.parametrize("recipe", ["rappor", "blockrr", "rr"])
def test_a_process_without_labels_ends_in_the_same_record(
    recipe, tiny_network, tiny_images, without_labels, tmp_path
):
    # Who trusts no wall inside one process would have nothing else to trust.
    cell = compose_cell([*tiny_network, f"mechanism={recipe}", *OWN.get(recipe, [])])
    path = tmp_path / "release.npz"
    release_only(cell, environment(tmp_path / "a", tiny_images), path)
    whole, _ = record(cell, environment(tmp_path / "b", tiny_images))
    learned, errors = record(cell, environment(tmp_path / "c", without_labels, path))
    assert not errors
    assert all(learned[key] is None and whole[key] is not None for key in OF_LABELS)
    for key in {*TIMED} - {"device"} | OF_LABELS:
        del whole[key], learned[key]
    assert learned == whole
    _, drawn = read_releases(path)
    with np.load(path) as archive:
        names = {name.rpartition("_")[2] for name in archive.files}
    assert names <= {"manifest", "indices", "outputs", "prior"}
    assert sum(len(release["indices"]) for release in drawn.values()) == 240


def test_a_file_is_for_its_data_its_noise_and_its_learner_only(
    tiny_network, tiny_images, without_labels, tmp_path
):
    path = tmp_path / "release.npz"
    cell = compose_cell([*tiny_network, "mechanism=rappor", "noise=secret"])
    release_only(cell, environment(tmp_path / "a", tiny_images), path)
    for changed, reason in (
        (["noise=seeded"], "released with noise=secret, and this run has noise=seeded"),
        (["seed=1"], "released with seed=0"),
        (["dataset.limit_train=100"], "released with dataset="),
        (["eps=2"], "the labels are not here"),
        (["mechanism=rr"], "the labels are not here"),
    ):
        other = compose_cell([*tiny_network, "mechanism=rappor", "noise=secret", *changed])
        _, errors = record(other, environment(tmp_path / "b", without_labels, path))
        assert len(errors) == 1 and reason in errors[0]
    # Another model costs nothing: it learns from the same releases.
    linear = compose_cell([*tiny_network, "mechanism=rappor", "noise=secret", "model=linear"])
    learned, errors = record(linear, environment(tmp_path / "b", without_labels, path))
    assert not errors and learned["eps_spent"] == 1


def test_what_a_killed_release_left_is_removed_and_said(
    tiny_network, tiny_images, tmp_path, capsys
):
    # A second draw of the same labels lay beside the first one, and nobody knew.
    cell = compose_cell([*tiny_network, "mechanism=rappor", "noise=secret"])
    left = tmp_path / ".release.npz.4711.partial"
    left.write_bytes(b"what a killed process had drawn")
    release_only(cell, environment(tmp_path / "a", tiny_images), tmp_path / "release.npz")
    assert not left.exists()
    assert f"{left.name} is removed: it held part of a release" in capsys.readouterr().err


def test_a_record_of_one_draw_is_not_shown_for_another(
    tiny_network, tiny_images, without_labels, tmp_path
):
    # With secret noise nothing in the cell says which draw it was.
    for noise in ("secret", "seeded"):
        cell = compose_cell([*tiny_network, "mechanism=rappor", f"noise={noise}"])
        paths = [tmp_path / f"{noise}_{number}.npz" for number in (1, 2)]
        for path in paths:
            release_only(cell, environment(tmp_path / "a", tiny_images), path)
        first, second = (environment(tmp_path / "b", without_labels, path) for path in paths)
        learned, errors = record(cell, first)
        assert not errors
        assert (NOTE in learned["notes"]) == (noise == "secret")
        refuse_other_releases(cell, first)
        if noise == "seeded":  # the same draw, in another file
            refuse_other_releases(cell, second)
            continue
        with pytest.raises(InputError, match=r"learnt from other releases than .*secret_2\.npz"):
            refuse_other_releases(cell, second)


def test_two_processes_at_once_do_not_both_draw(
    tiny_network, tiny_images, tmp_path, monkeypatch, capfd, someone_waits
):
    # Each saw that the file was absent, and drew: the same labels twice, one file left.
    cell = compose_cell([*tiny_network, "mechanism=rappor", "noise=secret"])
    path = tmp_path / "release.npz"
    given = (cell, environment(tmp_path / "a", tiny_images), path)
    context, original = multiprocessing.get_context("fork"), write_releases
    inside = context.Event()

    def write(*parts):
        inside.set()
        assert someone_waits.wait(60)
        original(*parts)

    monkeypatch.setattr("labeldp_bench.runs.release_only.write_releases", write)
    first = context.Process(target=release_only, args=given)
    first.start()
    assert inside.wait(60)
    with pytest.raises(InputError, match=r"release\.npz exists: a second draw of the same labels"):
        release_only(*given)
    first.join(60)
    assert "waits for another process that releases into" in capfd.readouterr().err
    assert not list(tmp_path.glob(".*"))  # the lock's file stayed


def test_what_cannot_be_handed_over_is_refused_before_anything_is_written(
    tiny_network, tiny_images, tmp_path
):
    path = tmp_path / "release.npz"
    for overrides, reason in (
        ([*tiny_network, "mechanism=lp_2st"], "learner=multi_stage needs a model, which gives"),
        (["dataset=mnist", "mechanism=pate_fm"], "learner=pate needs teachers first"),
        (["dataset=mnist", "mechanism=noisy_moments"], "learner=moments needs the features of"),
        ([*tiny_network, "mechanism=none"], "would write true labels"),
        ([*TINY_CIRCLE, "mechanism=rr", "dataset.trials=1"], "is for images from a file, as"),
        (["dataset=breast_cancer", "mechanism=rr"], r"is for images .*\(tables: labeldp release\)"),
    ):
        with pytest.raises(InputError, match=reason):
            release_only(compose_cell(overrides), environment(tmp_path, tiny_images), path)
    assert not path.exists()
    # Nor is such a run given a file.
    circle = compose_cell([*TINY_CIRCLE, "mechanism=rr", "dataset.trials=1"])
    path.write_bytes(b"PK")
    _, errors = record(circle, environment(tmp_path / "b", tiny_images, path))
    assert "releases= is for images from a file" in errors[0]


@pytest.mark.parametrize("mechanism", ["rappor", "lp_2st", "blockrr"])
def test_the_record_says_secret_and_the_releases_differ_from_run_to_run(
    mechanism, tmp_path, monkeypatch
):
    # A run that says secret and draws from its seed would be undone by anybody.
    stores = []

    def open_and_keep(*arguments):
        stores.append(open_store(*arguments))
        return stores[-1]

    monkeypatch.setattr("labeldp_bench.runs.run.open_store", open_and_keep)
    overrides = [*TINY_CIRCLE, f"mechanism={mechanism}", "noise=secret"]
    cell = compose_cell(overrides)
    where = [environment(tmp_path / name, tmp_path) for name in ("a", "b", "c")]
    (one, failed), (other, _) = (record(cell, each) for each in where[:2])
    assert failed == []
    assert one["noise"] == one["identity"]["noise"] == "secret"
    first_trials = stores[0], stores[len(stores) // 2]
    drawn, again = (store.releases[-1].outputs for store in first_trials)
    assert drawn.shape == again.shape and not torch.equal(drawn, again)
    assert one["config_hash"] == other["config_hash"] and one["seed"] == 0
    seeded, errors = record(compose_cell(overrides[:-1]), where[2])
    assert errors == []
    assert seeded["noise"] == "seeded" and seeded["config_hash"] != one["config_hash"]


def test_enhancement_is_not_called_secret(tiny_network, tiny_images, tmp_path):
    # Its random labels follow from the seed.
    cell = compose_cell([*tiny_network, "mechanism=ple", "noise=secret"])
    _, errors = record(cell, environment(tmp_path / "a", tiny_images))
    assert errors and errors[0].startswith("noise=secret protects nothing here: mechanism=ple")


def test_no_message_holds_a_hash_of_training_labels(tiny_images, monkeypatch):
    # Who knows all labels of a file but one tried the classes until the hash fitted: 20 of 20.
    path = tiny_images / "tiny.npz"
    images = hash_of_images(*read_npz(path))
    monkeypatch.setitem(OFFICIAL, "tiny", OfficialData("", 3, 0, images, "0" * 64))
    with pytest.raises(InputError, match="other training labels than the tiny of the") as caught:
        _compare_public("tiny", path)
    assert not re.search("[0-9a-f]{12}", str(caught.value).replace(str(path), ""))
