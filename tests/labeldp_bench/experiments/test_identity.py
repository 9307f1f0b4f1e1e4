"""An identity sees every value that a run uses, and older records keep their cells."""

from dataclasses import replace

import pytest
import yaml

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.identity import OURS, defaults_of, reference_values
from labeldp_bench.support.checkout import CONFIGS

PROBE = ["dataset=mnist", "model=probe", "pretrain=simclr", "mechanism=rr"]


def targets(node):
    """Yields every `_target_` in a YAML."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield node["_target_"]
        for value in node.values():
            yield from targets(value)
    elif isinstance(node, list):
        for value in node:
            yield from targets(value)


TARGETS = {
    target
    for path in CONFIGS.rglob("*.yaml")
    for target in targets(yaml.safe_load(path.read_text()))
    if ".reports." not in target
}


def test_defaults_in_code_are_the_reference_values():
    # A cell of a new parameter would get another name than its older records: add it to
    # experiments/reference_values.json, with the value that means what the code did before. A
    # changed default is allowed; then this test asks for new records of its cells.
    missing, changed = {}, {}
    for target in TARGETS:
        known = defaults_of(target)
        reference = reference_values().get(target.split(".")[-1], {})
        missing[target] = known.keys() - reference.keys() if target.startswith(OURS) else set()
        changed[target] = {key for key in known.keys() & reference if known[key] != reference[key]}
    assert len(TARGETS) > 50
    assert {target: keys for target, keys in missing.items() if keys} == {}
    assert {target: keys for target, keys in changed.items() if keys} == {}


def changed_default(monkeypatch, name, key, value):
    """Makes the code's default differ from the reference, as an edit of the code would."""
    monkeypatch.setitem(reference_values()[name], key, value)


def test_a_changed_default_in_code_changes_the_identity(monkeypatch):
    # Old weights and headline records would pass as the new recipe.
    cell = compose_cell(PROBE)
    before, recipe = cell.config_hash, cell.pretrain_recipe
    changed_default(monkeypatch, "Affine", "angle", 0.8)
    fresh = replace(cell)
    assert fresh.config_hash != before
    assert fresh.pretrain_recipe != recipe


def test_a_parameter_without_a_reference_value_is_part_of_the_identity(monkeypatch):
    # A new parameter could change a recipe under the name of the old one.
    cell = compose_cell(PROBE)
    before = cell.config_hash
    monkeypatch.delitem(reference_values()["Affine"], "shear")
    fresh = replace(cell)
    assert fresh.identity["pretrain.trainer.augment"][0]["shear"] == 0.35
    assert fresh.config_hash != before


def test_a_default_of_the_optimizer_is_part_of_the_identity(monkeypatch):
    # Torch may change one; the record of another torch would pass for this one's.
    cell = compose_cell(["dataset=mnist", "mechanism=rr"])
    before = cell.config_hash
    changed_default(monkeypatch, "Adam", "betas", [0.5, 0.5])
    fresh = replace(cell)
    assert fresh.config_hash != before
    assert fresh.identity["trainer.optimizer.betas"] == [0.9, 0.999]


def test_a_value_in_a_yaml_and_the_same_default_in_code_are_one_identity():
    # The same run would be done twice, and its table have a hole.
    bare = compose_cell(["dataset=mnist", "mechanism=rr"])
    spelled = compose_cell(["dataset=mnist", "mechanism=rr", "+trainer.views=1"])
    assert bare.config_hash == spelled.config_hash


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ("mechanism=rr eps=1 seed=0", "03f6bc4bb00e2b02"),
        ("dataset=mnist mechanism=lp_2st eps=0.5 seed=2", "3e7618e580e210a0"),
        ("dataset=mnist model=probe pretrain=simclr mechanism=rr", "0993be6380a23196"),
        ("dataset=cifar10_1 mechanism=blockrr eps=2 trainer.epochs=100", "c99e1831b6d6d2b8"),
        ("dataset=holder_regression mechanism=full_cube_means", "dfa88642699c16a5"),
        ("dataset=cifar10 mechanism=lp_2st_star eps=2 trainer.epochs=100", "bf1b5078add2b8f1"),
    ],
)
def test_hashes_of_committed_records_stay(overrides, name):
    # Thousands of committed records would lose their cells.
    assert compose_cell(overrides.split()).config_hash == name
