"""What `key=value` beside `experiment=` picks among its cells."""

from labeldp_bench.experiments.experiment import cells_of
from tests.shell import quick

CENTRAL = {"dataset": "mnist", "mechanism": "labeldp_pro", "learner": "noisy_gradients"}
CENTRAL |= {"model": "probe", "pretrain": "simclr", "eps": 1}
BLOCKS = [
    {"set": CENTRAL},
    {"set": CENTRAL | {"learner.projection": "none", "learner.learning_rate": 0.5}},
    {"set": {"dataset": "mnist", "mechanism": "none"}, "grid": {"seed": [0, 1]}},
]


def hashes(axes):
    return {cell.config_hash for cell in cells_of(BLOCKS, axes)}


def test_a_value_of_some_blocks_makes_no_new_cells_of_the_others():
    # A projected cell would be run without its projection, at a rate that was chosen for it.
    whole = hashes({})
    assert len(whole) == 4
    # The baseline has no such key, which ended the sweep.
    (one,) = cells_of(BLOCKS, {"learner.projection": ["none"]})
    assert one.setting("learner.learning_rate") == 0.5 and one.config_hash in whole
    # A baseline without privacy is the same at all eps; who names no seed has seed 0.
    assert hashes({"eps": ["1"]}) == whole
    assert len(hashes({"seed": ["0"]})) == 3 and hashes({"seed": ["0"]}) < whole
    (one,) = cells_of(BLOCKS, {"seed": ["1"]})
    assert one.choices["mechanism"] == "none"


def test_a_value_of_no_block_changes_all_of_them():
    # Other seeds, or another data set, are what an experiment is run again for.
    cells = cells_of(BLOCKS, {"seed": ["7"]})
    assert len(cells) == 3 and {cell.seed for cell in cells} == {7}
    assert not hashes({"seed": ["7"]}) & hashes({})


def test_the_command_line_picks_what_the_yaml_lists(tmp_path):
    # 30 cells of the projection would be run without it: hours for cells that nobody asked for.
    name = "experiment=mechanisms/curator_networks"
    line = [name, "learner.projection=none", "dataset=mnist", "eps=0.1", "seed=0"]
    outcome = quick(line, tmp_path)
    assert outcome.returncode == 0
    assert "1 cell: 1 stored in results/records.csv" in outcome.stdout
    table = "experiment=vector_approximation/table1a"
    none = quick([table, "mechanism=none", "learner.loss=marginal"], tmp_path)
    (error,) = none.stderr.splitlines()
    assert error.startswith("error: no cell of vector_approximation/table1a has mechanism=none")
    assert none.returncode != 0
