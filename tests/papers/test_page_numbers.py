"""What pages say of the committed records in prose."""

import re

import pandas as pd

from labeldp_bench.experiments.experiment import read_experiment
from tests.conftest import CHECKOUT

RECORDS = pd.read_csv(CHECKOUT / "results" / "records.csv", low_memory=False)
ATTACKS = pd.read_csv(CHECKOUT / "results" / "attacks.csv")
PRINTED = pd.read_csv(CHECKOUT / "results" / "published" / "blockrr.csv", dtype={"table": str})


def page(name):
    return " ".join((CHECKOUT / "docs" / f"{name}.md").read_text().split())


def test_the_cells_of_one_seed_are_counted_on_the_page_of_speed():
    # The estimate of a lent hour would be of a table without its newest rows.
    cells = read_experiment("vector_approximation/table1a").cells("paper")
    own = {cell.config_hash for cell in cells if cell.seed == 0}
    said = re.search(r"One seed of table 1a \((\d+) cells", page("speed"))
    assert int(said[1]) == len(own)


def test_how_long_a_run_of_half_an_hour_takes_where_bf16_is():
    # BlockRR's sets are smaller, and their runs shorter than the page said of all.
    rows = RECORDS[(RECORDS.budget == "quick") & (RECORDS.precision == "bf16")]
    small = rows.dataset == "cifar10_1"
    two = rows.mechanism == "lp_2st"
    parts = rows[~small & ~two], rows[two], rows[small]
    spans = [tuple((p.wall_seconds.agg(["min", "max"]) / 60).round().astype(int)) for p in parts]
    said = re.search(
        r"run of one stage took (\d+) to (\d+) minutes by the clock, one of LP-2ST (\d+) to (\d+), "
        r"and one on BlockRR's smaller set (\d+) to (\d+)", page("recipes-quick"),
    )  # fmt: skip
    found = [int(number) for number in said.groups()]
    assert list(zip(found[::2], found[1::2], strict=True)) == spans


def test_where_print_has_blockrr_first():
    # At eps=0.8 it prints RRWithPrior first, and the page had BlockRR first at all four.
    rows = PRINTED[(PRINTED.table == "3") & PRINTED.eps.isin([0.6, 0.8, 1, 2])]
    rows = rows[rows.method.isin(["rr", "rrwithprior", "blockrr"]) & (rows.metric == "accuracy")]
    wide = rows.pivot_table(index="eps", columns="method", values="value")
    others = wide.index[wide.idxmax(axis=1) != "blockrr"].tolist()
    assert others == [0.8]
    assert "BlockRR, first in print but for 0.8," in page("recipes-quick")


def test_finding_7_names_the_versions_of_the_samplers_that_it_averages():
    # It averages what no table does, so a reader must know of how many versions.
    networks = RECORDS[RECORDS.best_epoch_accuracy.notna() & (RECORDS.epochs <= 5)]
    stated = networks[networks.learner.isin(["single_stage", "multi_stage"])]
    stated = stated[stated.pretrain.fillna("none") == "none"]
    assert stated.draws.nunique() == 3
    assert "without pre-training, all three versions of the samplers" in page("findings-ours")


def test_few_known_labels_mislead_the_attacker_on_ple():
    # The page said so of one a1, and it holds of nearly all.
    cells = {cell.config_hash: cell for cell in read_experiment("ple/figure2").cells()}
    rows = ATTACKS[ATTACKS.mechanism == "ple"]
    rows = rows.assign(a1=[cells[key].setting("mechanism.punishment") for key in rows.config_hash])
    wide = rows.pivot_table(index=["dataset", "a1"], columns="known", values="with")
    lost = 100 * (wide[0.0] - wide[0.001])
    mnist, clothes = lost["mnist"], lost["fashion_mnist"]
    worse = (
        f"at every a1 than who takes the largest entry, by {mnist.min():.1f} to {mnist.max():.1f}"
    )
    assert mnist.min() > 0 and worse in page("ple-attacks")
    assert clothes.index[clothes < 0].tolist() == [0.9]
    assert "so it does on Fashion-MNIST but for a1=0.9" in page("ple-attacks")
