"""Networks that train as one: a record does not depend on its neighbours."""

import json
import math

import pytest
import torch

from labeldp_bench import pack as module
from labeldp_bench import sweeper, trial
from labeldp_bench.config import compose_cell
from labeldp_bench.fit import NetworkFit
from labeldp_bench.models.cnn import Dropout
from labeldp_bench.pack import PackFit
from labeldp_bench.place import Place
from labeldp_bench.run import run_cells
from tests.shell import quick, records_under

CPU = torch.device("cpu")
FLOAT = ["trainer.precision=float32"]
# Dropout, augmentation, a momentum optimizer with decay, a short last batch.
RECIPES = {
    "adam": [],
    "sgd": ["trainer=ple_server", "trainer.epochs=2", "trainer.batch_size=64",
            "trainer.selection=last", "trainer.patience=null"],
    "mixup": ["trainer=ghazi_cifar10", "trainer.augment=[]", "trainer.epochs=2",
              "trainer.batch_size=64", "trainer.mixup.alpha=4"],
}  # fmt: skip
CELLS = [
    ["mechanism=rr"], ["mechanism=rr", "eps=2"], ["mechanism=rappor"], ["mechanism=none"],
    ["mechanism=rappor", "learner.loss=marginal"], ["mechanism=rr", "learner.loss=marginal"],
    ["mechanism=subset_selection"], ["mechanism=alibi", "learner.loss=unbiased"],
]  # fmt: skip


@pytest.fixture
def weights(monkeypatch):
    """What every classifier had at the end, as the evaluator saw it, by config hash."""
    seen = {}
    plain = module.PackFit._fill

    def fill(fit, place, member):
        plain(fit, place, member)
        folder = member.session.checkpoint.path.parent
        state = member.classifier.network.state_dict()
        seen[folder] = {name: values.clone() for name, values in state.items()}

    monkeypatch.setattr(module.PackFit, "_fill", fill)
    return seen


def cells_of(tiny_network, extra, count=8):
    return [compose_cell([*tiny_network, *FLOAT, *extra, *own]) for own in CELLS[:count]]


def outcomes(folder):
    """Returns {config hash: record}."""
    records = [json.loads(path.read_text()) for path in records_under(folder)]
    return {record["config_hash"]: record for record in records}


@pytest.mark.parametrize("recipe", RECIPES)
def test_pack_gives_the_records_of_single_runs(recipe, tiny_network, tiny_images, tmp_path):
    # A record would depend on what else was in the sweep, and differ from its published command's.
    cells = cells_of(tiny_network, RECIPES[recipe])
    together, alone = (Place(tmp_path / name, tiny_images, CPU) for name in ("all", "one"))
    assert run_cells(cells, together) == []
    for cell in cells:
        assert run_cells([cell], alone) == []
    packed, single = outcomes(tmp_path / "all"), outcomes(tmp_path / "one")
    assert packed.keys() == single.keys()
    for key, record in packed.items():
        assert record["packed"] == len(CELLS)
        assert "packed" not in single[key]
        assert abs(record["accuracy"] - single[key]["accuracy"]) <= 1 / 60  # one test image
        for name in ("ledger", "released_agreement", "eps_spent", "identity", "selection"):
            assert record[name] == single[key][name]
    for cell in cells:
        rows = [
            (place.out_dir / cell.folder / "history.csv").read_text().splitlines()[1:]
            for place in (together, alone)
        ]
        for first, second in zip(*rows, strict=True):
            loss, other = (float(row.split(",")[1]) for row in (first, second))
            assert loss == pytest.approx(other, rel=1e-4)


def test_pack_of_one_equals_packs_of_two_and_sixteen(
    tiny_network, tiny_images, tmp_path, weights, monkeypatch
):
    # Neighbours would leak into a cell through order, masks or a shared optimizer.
    grid = [["mechanism=rr", f"eps={eps}"] for eps in (0.5, 1, 2, 3, 4, 5, 6, 7)]
    grid += [["mechanism=rappor", f"eps={eps}"] for eps in (0.5, 1, 2, 3, 4, 5, 6, 7)]
    cells = [compose_cell([*tiny_network, *FLOAT, *own]) for own in grid]
    assert run_cells(cells, Place(tmp_path / "sixteen", tiny_images, CPU)) == []
    # A cell alone is no pack; here it is one.
    monkeypatch.setattr(trial, "one_trial", lambda run, *given: packed_alone(run, *given))
    for cell in (cells[0], cells[-1]):
        of_sixteen = weights[tmp_path / "sixteen" / cell.folder]
        for neighbours in ([], [cells[5]]):
            place = Place(tmp_path / f"{cell.config_hash}{len(neighbours)}", tiny_images, CPU)
            assert run_cells([cell, *neighbours], place) == []
            for name, values in weights[place.out_dir / cell.folder].items():
                assert torch.allclose(values, of_sixteen[name], atol=1e-5), name


def packed_alone(run, *given):
    assert trial.packed_trial([run], *given) == []


def test_record_says_how_many_trained_together(tiny_network, tiny_images, tmp_path):
    # One that failed before the training would count.
    unfit = compose_cell([*tiny_network, *FLOAT, "mechanism=rappor", "learner.loss=plain"])
    failed = run_cells([*cells_of(tiny_network, [], 3), unfit], Place(tmp_path, tiny_images, CPU))
    assert len(failed) == 1
    assert [record["packed"] for record in outcomes(tmp_path).values()] == [3, 3, 3]


@pytest.mark.parametrize("precision", ["bf16", "float32"])
def test_pack_computes_in_the_precision_of_a_single_run(
    precision, tiny_network, tiny_images, tmp_path, monkeypatch
):
    # Autocast leaves a bias under vmap in float32, and with it all that follows.
    seen = {}
    plain = Dropout.forward

    def noted(dropout, units):
        if dropout.training:
            seen.setdefault("alone" if alone else "pack", set()).add(units.dtype)
        return plain(dropout, units)

    monkeypatch.setattr(Dropout, "forward", noted)
    cells = [
        compose_cell([*tiny_network, f"trainer.precision={precision}", *own]) for own in CELLS[:3]
    ]
    for alone, job in ((False, cells), (True, cells[:1])):
        assert run_cells(job, Place(tmp_path / str(alone), tiny_images, CPU)) == []
    dtype = {"bf16": torch.bfloat16, "float32": torch.float32}[precision]
    assert seen == {"pack": {dtype}, "alone": {dtype}}


def test_failure_is_of_one_member(tiny_network, tiny_images, tmp_path, monkeypatch, capsys):
    # One diverging cell would take thirty others with it.
    cells = cells_of(tiny_network, [], 3)
    plain = PackFit.step

    def poisoned(fit, *given):
        plain(fit, *given)
        fit.loss_sum[1] = math.nan

    monkeypatch.setattr(PackFit, "step", poisoned)
    (failed,) = run_cells(cells, Place(tmp_path, tiny_images, CPU))
    assert failed == tmp_path / cells[1].folder
    assert "the loss became nan in epoch 1" in (failed / "error.txt").read_text()
    assert len(records_under(tmp_path)) == 2
    assert capsys.readouterr().err.count("error: ") == 1


@pytest.mark.parametrize("where", ["__init__", "step"])
def test_lack_of_memory_halves_the_pack(
    where, tiny_network, tiny_images, tmp_path, monkeypatch, capsys
):
    # A sweep would die on a smaller card, which fills while weights are stacked, or in a step.
    cells = cells_of(tiny_network, [], 5)
    plain, sizes = getattr(PackFit, where), set()

    def small(fit, *given):
        members = given[1] if where == "__init__" else fit.members
        if len(members) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.add(len(members))
        plain(fit, *given)

    run_cells(cells, Place(tmp_path / "whole", tiny_images, CPU))
    monkeypatch.setattr(PackFit, where, small)
    assert run_cells(cells, Place(tmp_path / "halves", tiny_images, CPU)) == []
    assert sizes == {1, 2}
    assert "no memory for 5 networks at once; 2 and 3" in capsys.readouterr().out
    whole, halves = outcomes(tmp_path / "whole"), outcomes(tmp_path / "halves")
    assert {key: r["accuracy"] for key, r in whole.items()} == pytest.approx(
        {key: r["accuracy"] for key, r in halves.items()}, abs=1 / 60
    )


def test_pack_goes_on_after_a_stop(tiny_network, tiny_images, tmp_path, monkeypatch):
    # Thirty runs would start afresh; a kill may fall between the files of two members.
    cells = cells_of(tiny_network, ["trainer.epochs=3"], 3)
    places = [Place(tmp_path / name, tiny_images, CPU, 1) for name in ("stopped", "untouched")]
    plain = PackFit.begin_epoch

    def stop(fit):
        if fit.number == 2:
            raise KeyboardInterrupt
        plain(fit)

    with monkeypatch.context() as patch:
        patch.setattr(PackFit, "begin_epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            run_cells(cells, places[0])
    (places[0].out_dir / cells[2].folder / "checkpoint.pt").unlink()
    for place in places:
        assert run_cells(cells, place) == []
    assert list(tmp_path.rglob("checkpoint.pt")) == []
    for cell in cells:
        histories = [
            [row.rpartition(",")[0] for row in (p.out_dir / cell.folder / "history.csv").open()]
            for p in places
        ]
        assert len(histories[0]) == 4
        assert histories[0][:3] == histories[1][:3]
        stopped, untouched = (float(rows[3].split(",")[1]) for rows in histories)
        assert stopped == pytest.approx(untouched, rel=1e-5)


@pytest.mark.parametrize("part", ["network", "optimizer"])
def test_checkpoint_that_does_not_fit_fails_its_member_alone(
    part, tiny_network, tiny_images, tmp_path, monkeypatch, capsys
):
    cells = cells_of(tiny_network, ["trainer.epochs=3"], 3)
    place = Place(tmp_path, tiny_images, CPU, 1)
    with monkeypatch.context() as patch:
        patch.setattr(PackFit, "step", stopped_in_epoch(2))
        assert len(run_cells(cells, place)) == 3
    file = tmp_path / cells[1].folder / "checkpoint.pt"
    state = torch.load(file, weights_only=True)
    state["fits"][0][part] = {}
    torch.save(state, file)
    capsys.readouterr()
    assert run_cells(cells, place) == [tmp_path / cells[1].folder]
    assert f"{file} does not fit" in capsys.readouterr().err
    assert len(records_under(tmp_path)) == 2


def test_cell_that_began_alone_goes_on_in_a_pack(tiny_network, tiny_images, tmp_path, monkeypatch):
    # A sweep packs what an earlier command had begun by itself, and the other way round.
    cells = cells_of(tiny_network, ["trainer.epochs=3"], 2)
    for kind, first, then in (
        (NetworkFit, cells[:1], cells), (PackFit, cells, cells[:1])
    ):  # fmt: skip
        place = Place(tmp_path / kind.__name__, tiny_images, CPU, 1)
        with monkeypatch.context() as patch:
            patch.setattr(kind, "step", stopped_in_epoch(2, kind))
            assert len(run_cells(first, place)) == len(first)
        assert run_cells(then, place) == []
        history = (place.out_dir / cells[0].folder / "history.csv").read_text().splitlines()
        assert len(history) == 4
    accuracies = [
        outcomes(tmp_path / kind)[cells[0].config_hash]["accuracy"]
        for kind in ("NetworkFit", "PackFit")
    ]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=1 / 60)


def stopped_in_epoch(number, kind=PackFit):
    plain = kind.step

    def step(fit, *given):
        if fit.number + 1 == number:
            raise RuntimeError("cut off")
        plain(fit, *given)

    return step


def test_member_that_had_finished_keeps_how_many_trained_with_it(
    tiny_network, tiny_images, tmp_path, monkeypatch
):
    cells = cells_of(tiny_network, [], 3)
    place = Place(tmp_path, tiny_images, CPU, 1)
    with monkeypatch.context() as patch:
        patch.setattr(trial, "end", lambda trial: 1 / 0)
        assert len(run_cells(cells, place)) == 3
    assert run_cells(cells, place) == []
    assert [record["packed"] for record in outcomes(tmp_path).values()] == [3, 3, 3]


def test_sweeper_packs_what_differs_in_mechanism_and_loss(tiny_network, monkeypatch):
    # Cells of two recipes would train with one of them.
    def jobs(grid, device="cuda"):
        pairs = [(compose_cell([*tiny_network, *own]), own) for own in grid]
        return sorted(len(job) for job in sweeper.group(pairs, device))

    assert jobs(CELLS) == [8]
    assert jobs(CELLS, "cpu") == [1] * 8  # measured: a CNN is slower in a pack there
    linear = [[*own, "model=linear"] for own in CELLS]
    assert jobs(linear) == jobs(linear, "cpu") == [8]
    monkeypatch.setattr(sweeper, "LARGEST_PACK", 3)
    assert jobs(CELLS) == [2, 3, 3]
    one = ["mechanism=rr"]
    for other in (["seed=1"], ["trainer.epochs=3"], ["model.network.hidden=8"], ["model=resnet18"],
                  ["learner.retrain=consensus"]):  # fmt: skip
        assert jobs([one, [*one, *other]]) == [1, 1]
    assert jobs([["mechanism=lp_2st"], ["mechanism=lp_2st", "eps=2"]]) == [1, 1]


def test_packs_keep_the_order_they_were_given(tiny_network, monkeypatch):
    # A campaign that ends early would have trained the second seed and not the first.
    monkeypatch.setattr(sweeper, "LARGEST_PACK", 2)
    given = [["seed=1", "eps=1"], ["seed=1", "eps=2"], ["seed=0", "eps=1"], ["seed=1", "eps=4"]]
    pairs = [(compose_cell([*tiny_network, "mechanism=rr", *own]), own) for own in given]
    jobs = [[own for _, own in job] for job in sweeper.group(pairs, "cuda")]
    assert jobs == [given[:2], given[2:3], given[3:]]


def test_sweep_of_softmax_regression_trains_as_one(tiny_network, tmp_path):
    grid = ["-m", *tiny_network, "model=linear", "mechanism=rr,rappor", "eps=1,2"]
    done = quick(grid, tmp_path)
    assert done.returncode == 0, done
    assert done.lines[0] == "4 cells: 0 done, 4 to run in 1 jobs"
    assert {record["packed"] for record in outcomes(tmp_path).values()} == {4}
