"""Bad input: one line on stderr with the key, the value and what is allowed, and nothing else."""

import re

import pytest

from tests.shell import NPZ, quick

BAD = {
    "eps=0": r"eps must be a number > 0, got 0\.0 \(use eps=inf",
    "eps=nan": r"eps must be a number > 0, got nan",
    "eps=9e-6": r"eps must be at least 1e-05, got 9e-06 \(",
    "eps=1000": r"eps must be at most 700 or inf, got 1000\.0",
    "eps=abc": r"eps must be a number, got 'abc'",
    "eps=1 mechanism.eps=2": r"mechanism\.eps must be the run's budget, 1, got 2 \(give eps=",
    "eps=null": r"eps must have a value, got null",
    "mechanism=none eps=0": r"eps must be a number > 0, got 0\.0",
    "seed=-1": r"seed must be in \[0, \d+\], got -1",
    "NPZ trainer.epochs=abc budget=smoke": r"trainer\.epochs must be an integer >= 1, got 'abc'",
    "budget.rules=[]": r"budget\.rules cannot be given: a budget is chosen by its name",
    "table.kind=x": r"table\.kind cannot be given: it belongs to an experiment's file",
    "hydra.run.dir=x": r"hydra\.run\.dir cannot be given: .*out_dir=",
    "-m hydra.sweep.dir=x eps=1,2": r"hydra\.sweep\.dir cannot be given: .*out_dir=",
    "~seed": r"seed must be given \(leave ~seed out\)",
    "-m ~seed eps=1,2": r"~seed: a sweep cannot take a key away",
    "device=gpu": r"device must be auto, cpu, cuda or cuda:<n>, got 'gpu'",
    "device=cuda:99": r"device=cuda:99: torch sees \d+ GPUs here \(use device=cpu\)",
    "mechanism=rapor": r"mechanism must be one of .*rappor.*; got 'rapor' \(did you mean rappor",
    # All 53 names stood before the nearest one.
    "experiment=table1a": r"error: there is no experiment 'table1a' \(did you mean vector_approxi",
    "learner=bce": r"learner must be one of .*; got 'bce' \(did you mean learner\.loss=bce\?\)",
    "NPZ trainer.lr=0.1": r"unknown key trainer\.lr; .* \(did you mean trainer\.optimizer\.lr\?\)",
    "tuning.epochs=2": r"tuning has no keys as it is chosen here \(tuning is one of held_out_r",
    "mechanism=null": r"mechanism must be the name of a choice, got null",
    "+foo=1": r"unknown key foo \(keys: dataset, .*eps",
    "epsilon=1": r"unknown key epsilon; keys: .*eps.* \(did you mean eps\?\)",
    "dataset.sigmaa=1": r"unknown key dataset\.sigmaa; keys of dataset: .*did you mean sigma\?",
    "+model.metric=l1": r"model has no key 'metric'",
    "~dataset.sigma": r"dataset: 'sigma' must be given",
    "dataset.trials=0": r"dataset\.trials must be >= 1, got 0",
    "dataset.n_train=100": r"model\.k must be <= the number of training examples, got 200 for 100",
    "model._target_=nowhere.Model": "_target_ cannot be given",
    "learner.loss=hinge": r"learner\.loss must be one of .*bce.*; got 'hinge'",
    "learner.loss=plain": r"learner\.loss=plain needs one label per example, but Rappor releases",
    "model=cnn": r"a network needs images of shape \(N, H, W, C\), got \(10000, 2\)",
    "eps=1,2": r"eps=1,2 has several values, which is a sweep \(add -m\)",
    "foo": r"cannot read 'foo' \(write key=value\)",
    "-m eps=0.5, 1": r"cannot read 'eps=0\.5,' \(write a,b without a blank after the comma\)",
    "--eps=1": r"unknown option '--eps=1' \(overrides are key=value",
    "seed=1 -m eps=1,2": r"options such as -m come before all overrides, got 'eps=1,2'",
    "cells=[]": r"cells is for a sweep \(add -m\)",
    "out_dir=a_file": r"out_dir must be a folder one can write to, got 'a_file' \(file exists\)",
    "out_dir=/proc/x": r"out_dir must be a folder one can write to, got '/proc/x'",
    "data_dir=": r"data_dir must be a folder, got ''",
    "out_dir=": r"out_dir must be a folder one can write to, got ''",
    "dataset=npz": r"dataset\.name must be given",
    "NPZ dataset.name=other": r"no file data/other\.npz, .*two ways out",
    "NPZ dataset.name=damaged": r"damaged\.npz is not a zip archive, or is cut short",
    "-m eps=0,1": r"eps must be a number > 0, got 0\.0",
    "-m trainer.epochs=1,2": r"trainer\.epochs has no effect: this model is not trained",
    "NPZ +tuning.epochs=2": r"tuning=none has no keys, got epochs \(name another tuning= first",
    "NPZ model=cnn encoder=resnet18": r"encoder has no effect: it is for features or a network of",
    "NPZ views=digits": r"views has no effect: it is for contrastive pre-training",
    "experiment=quickstart sweep=circle": r"an experiment names its cells itself",
    "experiment=mechanisms/mnist dataset.n_train=9": r"unknown key dataset\.n_train; keys",
    "model=cubes": r"model\.box=\[0,1\] leaves \d+ % of the points outside",
    "mechanism=laplace": r"Laplace is made for regression, and this data set has classes",
    "mechanism=unary mechanism.keep=1.5": r"mechanism\.keep must be a number > 0 and < 1, got 1\.5",
    "NPZ trainer.optimizer.lr=-1": r"error: trainer\.optimizer: invalid learning rate: -1",
    "NPZ learner=ple": r"learner=ple is for mechanism=ple",
    "mechanism=ple": r"mechanism=ple needs a network",
    "NPZ mechanism=ple learner.k2=4": r"learner\.k2 must be in \[1, 3\], got 4",
    "NPZ mechanism=ple learner.k2=2 mechanism.k1=2 dataset.limit_train=2": r"learner\.validation",
    "NPZ mechanism=ple +mechanism.eps=1": r"guarantees nothing: it has no eps, got eps=1",
    # One of each check that constructors make of their arguments.
    "NPZ model.network.kernel_size=4": r"model\.network\.kernel_size must be .* got 4",
    "NPZ model.network.widths=3": r"model\.network\.widths must be a list of 2 .*got 3",
    "NPZ trainer=ghazi_mnist trainer.schedule.warmup=2": r"trainer\.schedule\.warmup .*got 2",
    "NPZ ++trainer.resolution=[[0.5,16]]": r"trainer\.resolution: .* got 16",
    "NPZ mechanism=lp_2st learner.temperature=0": r"learner\.temperature must be .* got 0",
    "NPZ model=eigenmaps model.functions=abc": r"model\.functions must be .*'abc'",
    "NPZ model=probe model.penalties=[0]": r"model\.penalties must be .* got",
    "dataset=holder_classification dataset.gamma=3": r"dataset\.gamma .* got 1\.5",
    "NPZ trainer.schedule=cosine": r"trainer\.schedule must be null or a mapping .*got 'cosine'",
    "NPZ trainer.augment=[foo]": r"each of trainer\.augment must be a mapping .*got 'foo'",
    "mechanism=lp_2st learner.fractions=[0.99999,0.00001]": r"learner\.fractions leave a stage",
    "NPZ mechanism=lp_2st learner.first=3": r"learner\.first must be a mapping .*got 3",
    "NPZ mechanism=lp_2st learner.first.eps=0": r"learner\.first\.eps must be a number > 0",
    "NPZ trainer=ghazi_mnist trainer.augment.2.size=9": r"trainer\.augment: size must leave room",
    "NPZ pretrain=cifar100 pretrain.trainer.mixup.alpha=0": r"pretrain\.trainer\.mixup\.alpha",
    "learner=local_averages learner.rule_eps=0": r"learner\.rule_eps must be a number > 0, got 0",
    "model=cubes model.box=0": r"model\.box must be a list of 2 numbers, \[low, high\], got 0",
    "--config-name foo": r"--config-name foo cannot be given: there is one config",
    "out_dir=a=b": r"""cannot read 'out_dir=a=b' \(special .* want quotes: 'out_dir="a=b"'\)""",
    "-m mechanism=rr,foo": r"mechanism must be one of .*; got 'foo'",
    "-m out_dir=a,b": r"""out_dir takes one value, got a,b .*'out_dir="a,b"'""",
    "-m eps=interval(1,2)": r"eps needs values to sweep over, got eps=interval\(1,2\)",
    "-m eps=1,2 --cfg job": r"--cfg shows one run, not a sweep",
    "experiment=quickstart mechanism=rr trainer.lr=1": r"does not fit every cell of quickstart: ",
    "dataset=mnist mechanism=pate_fm model=resnet18": r"encoder=cnn, and model=resnet18 is another",
    "NPZ model=tiny_cnn": r"model=tiny_cnn is trained by learner=noisy_sgd alone",
    "NPZ model=cnn pretrain=simclr trainer=half_hour": r"trainer\.resolution needs a network for",
    "-m mechanism=rr,rappor learner=moments learner.loss=squared": r"needs mechanism=noisy_moments",
    "mechanism=rr stages=halves": r"here mechanism=rr has learner=single_stage",
    "dataset.num_classes=9000000": r"needs [\d.,]+ GB for N x K and K x K numbers, and .* are free",
    "NPZ mechanism=rr dataset.num_classes=900000": r"num_classes=900000 with 240 examples needs",
    "sweep=circle dataset.sigma=-1": r"error: dataset\.sigma must be a number > 0, got -1",
    "dataset.sigma=1e-300": r"dataset\.sigma must be a number >= 1e-06 and <= 1e\+06",
    "dataset.n_test=100000000000": r"with 100,000,010,000 examples needs 32,000",
    "NPZ trainer.batch_size=1000000000000000000000": r"batch_size must be in \[1, 9223372036854",
    "NPZ trainer.optimizer.lr=inf": r"trainer\.optimizer\.lr must be a finite number, got inf",
    "eps=${nope}": r"error: \$\{nope\} refers to a key that is not there",
    "rerun=maybe": r"rerun must be true or false, got 'maybe'",
    "rerun=true": r"rerun=true has no effect here: .* delete the run's folder",
    "--multirun=3": r"argument --multirun/-m: ignored explicit argument '3' \(overrides are",
    "-m cells=3": r"cells must be a list of blocks, got int",
    "experiment=vector_approximation/table1a mechanism=hadamard": (
        "mechanism=lp_2st: stages=code_eps1 is for .* -m mechanism=hadamard"
    ),
    "NPZ dataset.name=folder": r"folder\.npz",
    "minutes=5": r"minutes is for a sweep \(add -m\)",
    "-m minutes=0": r"minutes must be a number > 0, got 0\.0",
    "-m minutes=1,2": "minutes takes one value, got 1,2",
    "dataset=diabetes mechanism=rappor": "Rappor",
    "dataset=diabetes mechanism=none learner=single_stage": "learner=local_averages",
    "dataset=diabetes mechanism=cube_means": "model=cubes",
    "dataset=diabetes mechanism=cube_means model=cubes model.cells=2": "1,024 cubes for 353",
    "dataset=diabetes mechanism=laplace dataset.low=400": r"dataset\.high",
    # One moved point may change most clusters, and the noise of `full_*` is for two of them.
    "dataset=holder_regression mechanism=full_cube_means model=clusters": "model=cubes",
    "NPZ mechanism=noisy_clusters model=knn": "model=cubes or clusters",
    "NPZ mechanism=rr model=eigenmaps learner=local_averages": "model=cubes, clusters or knn",
    "NPZ model=probe pretrain=none": "pretrain=simclr",
    "NPZ model=probe mechanism=noisy_moments": "Probe is not linear",
    "NPZ model=probe pretrain.trainer.views=1": r"pretrain\.trainer\.views",
    "NPZ model=probe pretrain.temperature=0": r"pretrain\.temperature",
    "dataset=breast_cancer mechanism=noisy_moments": "mechanism=noisy_clusters",
    "dataset=breast_cancer mechanism=pate_fm": "breast_cancer",
    "dataset=breast_cancer model=ridge pretrain=patches": "pretrain=patches",
    "mechanism=lp_1st_star": "pretrain=cifar100 needs a network",
    "pretrain=cifar100 dataset=cifar100": "labels of cifar100 as public",
    "pretrain=cifar100 dataset=cifar10_1 dataset.source=cifar100": "labels of cifar100",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_command_is_one_line_and_leaves_no_result(line, tmp_path, tiny_images):
    # A user would read a traceback, or find a folder that looks like a finished run.
    (tmp_path / "a_file").write_text("")
    (tiny_images / "folder.npz").mkdir()
    whole = (tiny_images / "tiny.npz").read_bytes()
    (tiny_images / "damaged.npz").write_bytes(whole[: len(whole) // 2])
    before = set(tmp_path.rglob("*"))
    outcome = quick([*NPZ, *line.split()[1:]] if "NPZ" in line else line.split(), tmp_path)
    assert outcome.returncode == 2
    said = [text for text in outcome.stdout.splitlines() if not text.startswith(("  ", "about "))]
    assert len(said) <= 1  # what was to run; below it how long that takes, and what it did
    [error] = outcome.stderr.splitlines()
    assert error.startswith("error: ")
    assert re.search(BAD[line], error)
    left = {path.name for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert left <= {".lock"}


OWN = """# @package _global_
mechanism:
  _target_: labeldp.mechanisms.RandomizedResponse
  eps: ${eps}
learner: {loss: plain}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mechanism:", "mechanism", r"not allowed here in \".*/own/mechanism/mine\.yaml\", line 3"),
        ("RandomizedResponse", "Nowhere", r"mechanism: .*labeldp\.mechanisms\.Nowhere"),
    ],
)
def test_a_wrong_yaml_of_an_own_part_is_one_line(old, new, message, tmp_path):
    # Who adds a mechanism would read a traceback, or that learner.loss has no default.
    path = tmp_path / "own" / "mechanism" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(OWN.replace(old, new))
    outcome = quick(["--config-dir", "own", "mechanism=mine"], tmp_path)
    assert outcome.returncode == 2
    [error] = outcome.stderr.splitlines()
    assert re.search(message, error)


def test_traceback_on_request(command, monkeypatch):
    # A developer could not find where an error comes from.
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    assert "Traceback" in command("eps=abc").stderr


def test_a_training_that_fails_is_one_line_and_an_error_file(tmp_path, tiny_images):
    # A script that reads stdout would take the error for a result, or bad input for bad luck.
    outcome = quick([*NPZ, "trainer.optimizer.lr=1e9", "trainer.epochs=2"], tmp_path)
    assert outcome.returncode == 1
    [error] = outcome.stderr.splitlines()
    assert re.match(r"error: rappor .*: the loss became nan in epoch \d", error)
    assert "error: " not in outcome.stdout
    assert len(list(tmp_path.rglob("error.txt"))) == 1
