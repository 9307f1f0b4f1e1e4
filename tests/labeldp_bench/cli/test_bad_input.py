"""Bad input: one line on stderr with the key, the value and what is allowed, and nothing else."""

import pytest

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from tests.shell import NPZ, quick

COMMANDS = {
    "eps=abc": "eps 'abc'",
    "eps=null": "eps null",
    "eps=1 mechanism.eps=2": "mechanism.eps 1 2 eps=",
    "eps=0": "eps 0.0 eps=inf",
    "-m eps=0,1": "eps 0.0",
    "budget.rules=[]": "budget.rules",
    "table.kind=x": "table.kind",
    "hydra.run.dir=x": "hydra.run.dir out_dir=",
    "-m hydra.sweep.dir=x eps=1,2": "hydra.sweep.dir out_dir=",
    "-m ~seed eps=1,2": "~seed sweep",
    "device=gpu": "device 'gpu' cuda:<n>",
    "device=cuda:99": "cuda:99 device=cpu",
    "mechanism=rapor": "'rapor' mean rappor",
    "mechanism=null": "mechanism null",
    "experiment=table1a": "'table1a' mean vector_approxi",
    "learner=bce": "'bce' learner.loss=bce",
    "NPZ trainer.lr=0.1": "trainer.lr trainer.optimizer.lr",
    "tuning.epochs=2": "tuning held_out_r",
    "epsilon=1": "epsilon mean eps",
    "dataset.sigmaa=1": "dataset.sigmaa mean sigma",
    "dataset.n_train=100": "model.k 200 100",
    "model._target_=nowhere.Model": "_target_",
    "learner.loss=plain": "learner.loss=plain Rappor",
    "model=cnn": "(10000, 2)",
    "eps=1,2": "eps=1,2 -m",
    "foo": "'foo' key=value",
    "-m eps=0.5, 1": "'eps=0.5,' blank",
    "--eps=1": "'--eps=1' key=value",
    "seed=1 -m eps=1,2": "-m before 'eps=1,2'",
    "cells=[]": "cells -m",
    "-m cells=3": "cells int",
    "out_dir=a_file": "out_dir 'a_file' exists",
    "out_dir=/proc/x": "out_dir '/proc/x'",
    "out_dir=": "out_dir ''",
    "data_dir=": "data_dir ''",
    "out_dir=a=b": """'out_dir=a=b' 'out_dir="a=b"'""",
    "dataset=table dataset.file=a,b.csv": """(add -m; 'dataset.file="a,b.csv"'""",
    "-m out_dir=a,b": """a,b 'out_dir="a,b"'""",
    "dataset=npz": "dataset.name",
    "NPZ dataset.name=other": "data/other.npz",
    "NPZ dataset.name=folder": "folder.npz",
    "-m trainer.epochs=1,2": "trainer.epochs",
    "NPZ model=cnn encoder=resnet18": "encoder",
    "NPZ views=digits": "views",
    "NPZ views.trainer.epochs=3": "pretrain.trainer.epochs=",
    "NPZ encoder.width=8": "model.network.width=",
    "experiment=quickstart sweep=circle": "experiment",
    "experiment=mechanisms/mnist dataset.n_train=9": "dataset.n_train",
    "experiment=quickstart mechanism=rr trainer.lr=1": "quickstart:",
    "experiment=vector_approximation/table1a mechanism=hadamard": "code_eps1 mechanism=hadamard",
    "sweep=circle dataset.sigma=-1": "error: dataset.sigma -1",
    "model=cubes": "model.box=[0,1] %",
    "mechanism=laplace": "Laplace regression",
    "NPZ mechanism=ple learner.k2=4": "learner.k2 3 4",
    "NPZ mechanism=ple learner.k2=2 mechanism.k1=2 dataset.limit_train=2": "learner.validation",
    "NPZ model.network.kernel_size=4": "model.network.kernel_size 4",
    "NPZ model.network.widths=3": "model.network.widths 3",
    "mechanism=lp_2st learner.fractions=[0.99999,0.00001]": "learner.fractions",
    "NPZ trainer=ghazi_cifar10 trainer.augment.2.size=9": "trainer.augment size",
    "--config-name foo": "--config-name foo",
    "-m eps=interval(1,2)": "eps=interval(1,2)",
    "-m eps=1,2 --cfg job": "--cfg",
    "--multirun=3": "'3'",
    "NPZ model=cnn pretrain=simclr trainer=half_hour": "trainer.resolution",
    "-m mechanism=rr,rappor learner=moments learner.loss=squared": "mechanism=noisy_moments",
    "dataset.num_classes=9000000": "K x K GB",
    "NPZ mechanism=rr dataset.num_classes=900000": "num_classes=900000 240",
    "dataset.n_test=100000000000": "100,000,010,000 32,000",
    "eps=${nope}": "${nope}",
    "rerun=maybe": "rerun 'maybe'",
    "rerun=true": "rerun=true delete",
    "minutes=5": "minutes -m",
    "-m minutes=0": "minutes 0.0",
    "-m minutes=1,2": "minutes 1,2",
    "dataset=diabetes mechanism=rappor": "Rappor",
    "dataset=diabetes mechanism=none learner=single_stage": "learner=local_averages",
    "dataset=diabetes mechanism=cube_means": "model=cubes",
    "dataset=diabetes mechanism=cube_means model=cubes model.cells=2": "1,024 353",
    # One moved point may change most clusters, and the noise of `full_*` is for two of them.
    "dataset=holder_regression mechanism=full_cube_means model=clusters": "model=cubes",
    "NPZ mechanism=noisy_clusters model=knn": "model=cubes clusters",
    "NPZ mechanism=rr model=eigenmaps learner=local_averages": "model=cubes clusters knn",
    "dataset=breast_cancer mechanism=noisy_moments": "mechanism=noisy_clusters",
    "dataset=breast_cancer mechanism=pate_fm": "breast_cancer",
    "dataset=breast_cancer model=ridge pretrain=patches": "pretrain=patches",
}
"""{command: what its error names}; `NPZ` stands for a network on the fixture's images."""
CELLS = {
    "eps=nan": "eps nan",
    "eps=9e-6": "eps 1e-05 9e-06",
    "eps=1000": "eps 700 1000.0",
    "mechanism=none eps=0": "eps 0.0",
    "seed=-1": "seed -1",
    "~seed": "seed ~seed",
    "+foo=1": "foo",
    "+model.metric=l1": "'metric'",
    "~dataset.sigma": "dataset 'sigma'",
    "dataset.trials=0": "dataset.trials 0",
    "dataset.sigma=1e-300": "dataset.sigma 1e-06",
    "NPZ trainer.epochs=abc budget=smoke": "trainer.epochs 'abc'",
    "learner.loss=hinge": "learner.loss bce 'hinge'",
    "NPZ +tuning.epochs=2": "tuning=none epochs",
    "NPZ learner=ple": "learner=ple mechanism=ple",
    "mechanism=ple": "mechanism=ple network",
    "NPZ mechanism=ple +mechanism.eps=1": "eps=1",
    # One of each check that constructors make of their arguments.
    "mechanism=unary mechanism.keep=1.5": "mechanism.keep 1.5",
    "NPZ trainer.optimizer.lr=-1": "trainer.optimizer -1",
    "NPZ trainer.optimizer.lr=inf": "trainer.optimizer.lr inf",
    "NPZ trainer.batch_size=1000000000000000000000": "batch_size 9223372036854",
    "NPZ trainer=ghazi_cifar10 trainer.schedule.warmup=2": "trainer.schedule.warmup 2",
    "NPZ trainer.schedule=cosine": "trainer.schedule 'cosine'",
    "NPZ trainer.augment=[foo]": "trainer.augment 'foo'",
    "NPZ ++trainer.resolution=[[0.5,16]]": "trainer.resolution 16",
    "NPZ mechanism=lp_2st learner.temperature=0": "learner.temperature 0",
    "NPZ mechanism=lp_2st learner.first=3": "learner.first 3",
    "NPZ mechanism=lp_2st learner.first.eps=0": "learner.first.eps",
    "learner=local_averages learner.rule_eps=0": "learner.rule_eps 0",
    "NPZ model=eigenmaps model.functions=abc": "model.functions 'abc'",
    "NPZ model=probe model.penalties=[0]": "model.penalties",
    "model=cubes model.box=0": "model.box 0",
    "dataset=holder_classification dataset.gamma=3": "dataset.gamma 1.5",
    "dataset=diabetes mechanism=laplace dataset.low=400": "dataset.high",
    "NPZ pretrain=cifar100 pretrain.trainer.mixup.alpha=0": "pretrain.trainer.mixup.alpha",
    "NPZ model=probe pretrain.trainer.views=1": "pretrain.trainer.views",
    "NPZ model=probe pretrain.temperature=0": "pretrain.temperature",
    # Parts that do not go together.
    "dataset=mnist mechanism=pate_fm model=resnet18": "encoder=cnn model=resnet18",
    "NPZ model=tiny_cnn": "model=tiny_cnn learner=noisy_sgd",
    "mechanism=rr stages=halves": "mechanism=rr learner=single_stage",
    "NPZ model=probe pretrain=none": "pretrain=simclr",
    "NPZ model=probe mechanism=noisy_moments": "Probe linear",
    "NPZ model=cnn pretrain=patches": "pretrain=patches",
    "mechanism=rr dataset=cifar10 learner.loss=unbiased pretrain=simclr model=probe "
    "model.components=256 model.powers=[1]": "learner.loss=unbiased learner.loss=marginal",
    "mechanism=lp_1st_star": "pretrain=cifar100",
    "pretrain=cifar100 dataset=cifar100": "labels cifar100",
    "pretrain=cifar100 dataset=cifar10_1 dataset.source=cifar100": "labels cifar100",
}
"""The same for what is refused where a cell is made: the border above it is one for all."""


def words_of(line):
    return [*NPZ, *line.split()[1:]] if "NPZ" in line else line.split()


def lacks(error, named):
    """What an error should name and does not."""
    return [word for word in named.split() if word not in error]


@pytest.mark.parametrize("line", COMMANDS)
def test_bad_command_is_one_line_and_leaves_no_result(line, tmp_path, tiny_images):
    # A user would read a traceback, or find a folder that looks like a finished run.
    (tmp_path / "a_file").write_text("")
    (tiny_images / "folder.npz").mkdir()
    before = set(tmp_path.rglob("*"))
    outcome = quick(words_of(line), tmp_path)
    assert outcome.returncode == 2
    said = [text for text in outcome.stdout.splitlines() if not text.startswith(("  ", "about "))]
    assert len(said) <= 1  # what was to run; below it how long that takes, and what it did
    [error] = outcome.stderr.splitlines()
    assert error.startswith("error: ") and not lacks(error, COMMANDS[line])
    left = {path.name for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert left <= {".lock"}


@pytest.mark.parametrize("line", CELLS)
def test_bad_cell_is_refused_before_anything_runs(line):
    # A value that nobody checks would train for hours, or end in a traceback.
    with pytest.raises(InputError) as refused:
        compose_cell(words_of(line)).build()
    error = str(refused.value)
    assert "\n" not in error and not lacks(error, CELLS[line])


OWN = """# @package _global_
mechanism:
  _target_: labeldp.mechanisms.RandomizedResponse
  eps: ${eps}
learner: {loss: plain}
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("mechanism:", "mechanism", "own/mechanism/mine.yaml line 3"),
        ("RandomizedResponse", "Nowhere", "mechanism: labeldp.mechanisms.Nowhere"),
    ],
)
def test_a_wrong_yaml_of_an_own_part_is_one_line(old, new, named, tmp_path):
    # Who adds a mechanism would read a traceback, or that learner.loss has no default.
    path = tmp_path / "own" / "mechanism" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(OWN.replace(old, new))
    outcome = quick(["--config-dir", "own", "mechanism=mine"], tmp_path)
    assert outcome.returncode == 2
    [error] = outcome.stderr.splitlines()
    assert not lacks(error, named)


def test_traceback_on_request(monkeypatch, command):
    # A developer could not find where an error comes from.
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # which is read as the program starts
    assert "Traceback" in command("eps=abc").stderr


def test_a_training_that_fails_is_one_line_and_an_error_file(tmp_path, tiny_images):
    # A script that reads stdout would take the error for a result, or bad input for bad luck.
    outcome = quick([*NPZ, "trainer.optimizer.lr=1e9", "trainer.epochs=2"], tmp_path)
    assert outcome.returncode == 1
    [error] = outcome.stderr.splitlines()
    assert not lacks(error, "error: rappor loss nan epoch")
    assert "error: " not in outcome.stdout
    assert len(list(tmp_path.rglob("error.txt"))) == 1
