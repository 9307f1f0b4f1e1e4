"""Bad input: one line on stderr with the key, the value and what is allowed, and nothing else."""

import re

import pytest

from tests.shell import NPZ, quick, records_under

BAD = {
    "eps=0": r"eps must be a number > 0, got 0\.0 \(use eps=inf",
    "eps=-1": r"eps must be a number > 0, got -1\.0",
    "eps=nan": r"eps must be a number > 0, got nan",
    "eps=9e-6": r"eps must be at least 1e-05, got 9e-06 \(",
    "eps=1000": r"eps must be at most 700 or inf, got 1000\.0",
    "eps=abc": r"eps must be a number, got 'abc'",
    "eps=null": r"eps must have a value, got null",
    "mechanism=none eps=0": r"eps must be a number > 0, got 0\.0",
    "mechanism.eps=[1,2]": r"eps must be a number > 0, got \[1, 2\]",
    "seed=1.5": r"seed must be an integer, got '1\.5'",
    "seed=-1": r"seed must be in \[0, \d+\], got -1",
    "budget=5": r"budget must be the name of a choice, got 5",
    "budget=fast": r"budget must be one of card, paper, quick, smoke; got 'fast'",
    "NPZ trainer.epochs=abc budget=smoke": r"trainer\.epochs must be an integer >= 1, got 'abc'",
    "dataset.trials=[1] budget=quick": r"dataset\.trials must be an integer >= 1, got \[1\]",
    "budget.rules=[]": r"budget\.rules cannot be given: a budget is chosen by its name",
    "table.kind=x": r"table\.kind cannot be given: it belongs to an experiment's file",
    "device=gpu": r"device must be auto, cpu, cuda or cuda:<n>, got 'gpu'",
    "device=cuda:99": r"device=cuda:99: torch sees \d+ GPUs here \(use device=cpu\)",
    "mechanism=rapor": r"mechanism must be one of .*rappor.*; got 'rapor' \(did you mean rappor",
    "mechanism=RR": r"mechanism must be one of .*; got 'RR' \(did you mean rr\?\)",
    # All 53 names stood before the nearest one.
    "experiment=table1a": r"error: there is no experiment 'table1a' \(did you mean vector_approxi",
    "--help experiment=table1a": r"error: there is no experiment 'table1a' \(did you mean vector",
    "learner=bce": r"learner must be one of .*; got 'bce' \(did you mean learner\.loss=bce\?\)",
    "NPZ trainer.lr=0.1": r"unknown key trainer\.lr; .* \(did you mean trainer\.optimizer\.lr\?\)",
    "tuning.epochs=2": r"tuning has no keys as it is chosen here \(tuning is one of held_out_r",
    "stages.k=1": r"stages has no keys as it is chosen here \(stages is one of code_eps1, .*\)",
    "mechanism=null": r"mechanism must be the name of a choice, got null",
    "dataset=imagenet": r"dataset must be one of .*circle.*; got 'imagenet'",
    "experiment=foo": r"no experiment 'foo'; `python -m labeldp_bench --help experiment` shows all",
    "dataset.n_train=200 experiment=foo": r"error: there is no experiment 'foo'; `python",
    "+foo=1": r"unknown key foo \(keys: dataset, .*eps",
    "epsilon=1": r"unknown key epsilon; keys: .*eps.* \(did you mean eps\?\)",
    "+epsilon=1": r"unknown key epsilon \(did you mean eps\?\)",
    "dataset.sigmaa=1": r"unknown key dataset\.sigmaa; keys of dataset: .*did you mean sigma\?",
    "+model.metric=l1": r"model has no key 'metric'",
    "~dataset.sigma": r"dataset: 'sigma' must be given",
    "dataset.sigma=1/K": r"dataset\.sigma must be a number > 0 or the text 2/K, got '1/K'",
    "dataset.trials=0": r"dataset\.trials must be >= 1, got 0",
    "model.k=0": r"model\.k must be >= 1, got 0",
    "dataset.n_train=100": r"model\.k must be <= the number of training examples, got 200 for 100",
    "learner=local_averages learner.tuning=fixed model.k=10001": r"model\.k .* got 10001 for 10000",
    "model._target_=nowhere.Model": "_target_ cannot be given",
    "learner.loss=hinge": r"learner\.loss must be one of .*bce.*; got 'hinge'",
    "learner.loss=plain": r"learner\.loss=plain needs one label per example, but Rappor releases",
    "model=cnn": r"a network needs images of shape \(N, H, W, C\), got \(10000, 2\)",
    "eps=1,2": r"eps=1,2 has several values, which is a sweep \(add -m\)",
    "foo": r"cannot read 'foo' \(write key=value\)",
    "=5": r"cannot read '=5' \(write key=value\)",
    "-m eps=0.5, 1": r"cannot read 'eps=0\.5,' \(write a,b without a blank after the comma\)",
    "-m mechanism=rr, rappor": r"cannot read 'mechanism=rr,' \(write a,b without a blank",
    "--eps=1": r"unknown option '--eps=1' \(overrides are key=value",
    "seed=1 -m eps=1,2": r"options such as -m come before all overrides, got 'eps=1,2'",
    "cells=[]": r"cells is for a sweep \(add -m\)",
    "job=3": r"unknown key job",
    "out_dir=a_file": r"out_dir must be a folder one can write to, got 'a_file' \(file exists\)",
    "out_dir=a_file/x": r"out_dir must be a folder one can write to, got 'a_file/x'",
    "out_dir=/proc/x": r"out_dir must be a folder one can write to, got '/proc/x'",
    "data_dir=": r"data_dir must be a folder, got ''",
    "out_dir=": r"out_dir must be a folder one can write to, got ''",
    "dataset=npz": r"dataset\.name must be given",
    "dataset=npz dataset.name=x": r"dataset\.num_classes must be given",
    "NPZ trainer.epochs=0": r"error: trainer\.epochs must be >= 1, got 0",
    "NPZ mechanism=ple learner.client.epochs=0": r"error: learner\.client\.epochs must be >= 1",
    "NPZ pretrain=cifar100 model=cnn pretrain.trainer.epochs=0": r"error: pretrain\.trainer\.ep",
    "NPZ trainer.selection=best": r"trainer\.selection must be one of last, .*; got 'best'",
    "NPZ dataset.name=../tiny": r"dataset\.name must be a file name without folder",
    "NPZ dataset.name=other": r"no file data/other\.npz, .*two ways out",
    "NPZ dataset.name=damaged": r"damaged\.npz is not a zip archive, or is cut short",
    "NPZ dataset.limit_train=241": r"dataset\.limit_train must be at most 240, .*got 241",
    "NPZ dataset.num_classes=2": r"tiny\.npz: y_train must be in \[0, 1\] .*got 2",
    "-m eps=0,1": r"eps must be a number > 0, got 0\.0",
    "-m seed=0,x": r"seed must be an integer, got 'x'",
    "-m trainer.epochs=1,2": r"trainer\.epochs has no effect: this model is not trained",
    "NPZ tuning=held_out_releases trainer.epochs=9": r"trainer\.epochs has .*tuning\.epochs=\)",
    "NPZ +tuning.epochs=2": r"tuning=none has no keys, got epochs \(name another tuning= first",
    "NPZ +pretrain.epochs=2": r"pretrain=none has no keys, got epochs \(name another pretrain=",
    "NPZ model=cnn encoder=resnet18": r"encoder has no effect: it is for features or a network of",
    "-m encoder=cnn eps=1,2": r"encoder has no effect: it is for features or a network of",
    "NPZ views=digits": r"views has no effect: it is for contrastive pre-training",
    "trainer.epochs=1": r"trainer\.epochs has no effect: this model is not trained",
    "experiment=quickstart sweep=circle": r"an experiment names its cells itself",
    "experiment=mechanisms/mnist dataset.n_train=9": r"unknown key dataset\.n_train; keys",
    "model=cubes": r"model\.box=\[0,1\] leaves \d+ % of the points outside",
    "mechanism=laplace": r"Laplace is made for regression, and this data set has classes",
    "mechanism=unary mechanism.keep=1.5": r"mechanism\.keep must be a number > 0 and < 1, got 1\.5",
    "NPZ trainer.optimizer.lr=-1": r"error: trainer\.optimizer: invalid learning rate: -1",
    "NPZ learner=ple": r"learner=ple is for mechanism=ple",
    "NPZ mechanism=rr learner=ple learner.loss=enhanced": r"learner=ple goes with mechanism=ple",
    "mechanism=ple": r"mechanism=ple needs a network",
    "NPZ mechanism=ple learner=single_stage learner.loss=plain": r"use learner=ple",
    "NPZ mechanism=ple learner.k2=4": r"learner\.k2 must be in \[1, 3\], got 4",
    "NPZ mechanism=ple learner.k2=2 mechanism.k1=4": r"mechanism\.k1 must be in \[1, 3\], got 4",
    "NPZ mechanism=ple mechanism.punishment=1": r"mechanism\.punishment must be .* got 1",
    "NPZ mechanism=ple learner.k2=2 mechanism.k1=2 dataset.limit_train=2": r"learner\.validation",
    "NPZ mechanism=ple +mechanism.eps=1": r"guarantees nothing: it has no eps, got eps=1",
    "NPZ mechanism=ple learner.loss=marginal": r"learner\.loss must be one of .*'marginal'",
    "NPZ trainer.schedule=cosine": r"trainer\.schedule must be null or a mapping .*got 'cosine'",
    "NPZ trainer.mixup=3": r"trainer\.mixup must be null or a mapping .*configs/trainer\), got 3",
    "NPZ trainer.augment=foo": r"trainer\.augment must be a list of mappings, or \[\], got 'foo'",
    "NPZ trainer.augment=[foo]": r"each of trainer\.augment must be a mapping .*got 'foo'",
    "NPZ trainer.optimizer=SGD": r"trainer\.optimizer must be a mapping .*got 'SGD'",
    "NPZ trainer.optimizer.lr=x": r"trainer\.optimizer\.lr must be a number, got 'x'",
    "NPZ model.network=cnn": r"model\.network must be a mapping .*configs/model\), got 'cnn'",
    "NPZ model.network.dropout=1": r"model\.network\.dropout must be .*< 1, got 1",
    "NPZ model.network.widths=3": r"model\.network\.widths must be a list of 2 .*got 3",
    "NPZ mechanism=lp_2st learner.first=3": r"learner\.first must be a mapping .*got 3",
    "NPZ mechanism=lp_2st learner.first.eps=0": r"learner\.first\.eps must be a number > 0",
    "NPZ trainer=ghazi_mnist trainer.augment.2.size=9": r"trainer\.augment: size must leave room",
    "NPZ trainer=ghazi_mnist trainer.schedule.warmup=2": r"trainer\.schedule\.warmup .*got 2",
    "NPZ pretrain=cifar100 pretrain.trainer.mixup.alpha=0": r"pretrain\.trainer\.mixup\.alpha",
    "NPZ pretrain=cifar100 pretrain.dataset=3": r"pretrain\.dataset must be a mapping .*got 3",
    "dataset=cifar10_1 dataset.train_counts=3": r"dataset\.train_counts must be a list of 10",
    "learner=local_averages learner.rule_eps=0": r"learner\.rule_eps must be a number > 0, got 0",
    "model=cubes model.box=0": r"model\.box must be a list of 2 numbers, \[low, high\], got 0",
    "--config-name foo": r"--config-name foo cannot be given: there is one config",
    "out_dir=a=b": r"""cannot read 'out_dir=a=b' \(special .* want quotes: 'out_dir="a=b"'\)""",
    "out_dir=a,b": r"""out_dir=a,b has several values.*want quotes: 'out_dir="a,b"'\)""",
    "-m mechanism=rr,foo": r"mechanism must be one of .*; got 'foo'",
    "-m device=gpu": r"device must be auto, cpu, cuda or cuda:<n>, got 'gpu'",
    "-m out_dir=a,b": r"""out_dir takes one value in a sweep, got a,b .*'out_dir="a,b"'""",
    "-m out_dir=a_file": r"out_dir must be a folder one can write to, got 'a_file'",
    "-m sweep=circle,mnist": r"sweep takes one value in a sweep, got circle,mnist",
    "-m eps=interval(1,2)": r"eps needs values to sweep over, got eps=interval\(1,2\)",
    "-m eps=glob(*)": r"eps: nothing matches",
    "-m eps=1,2 --cfg job": r"--cfg shows one run, not a sweep",
    "experiment=vector_approximation/table1a mechanism=hadamard": (
        r"mechanism=hadamard does not fit the cells of vector_approximation/table1a that have "
        r"mechanism=lp_2st: stages=code_eps1 is for .* -m mechanism=hadamard"
    ),
    "experiment=quickstart mechanism=rr trainer.lr=1": r"does not fit every cell of quickstart: ",
    "dataset=mnist mechanism=pate_fm model=resnet18": r"encoder=cnn, and model=resnet18 is another",
    "NPZ model=tiny_cnn": r"model=tiny_cnn is trained by learner=noisy_sgd alone",
    "NPZ mechanism=labeldp_pro learner=noisy_sgd": r"learner=noisy_sgd needs model=tiny_cnn",
    "NPZ releases=nowhere.npz": r"releases must be a file: there is no nowhere\.npz",
    "NPZ model=cnn pretrain=simclr trainer=half_hour": r"trainer\.resolution needs a network for",
    "-m mechanism=rr,rappor learner=moments learner.loss=squared": r"needs mechanism=noisy_moments",
    "mechanism=rr stages=halves": r"here mechanism=rr has learner=single_stage",
    "dataset.num_classes=9000000": r"needs [\d.,]+ GB for N x K and K x K numbers, and .* are free",
    "mechanism=rr dataset.num_classes=900000": r"are free",
    "NPZ mechanism=rr dataset.num_classes=900000": r"num_classes=900000 with 240 examples needs",
    "sweep=circle dataset.sigma=-1": r"error: dataset\.sigma must be a number > 0, got -1",
    "dataset.sigma=1e-300": r"dataset\.sigma must be a number >= 1e-06 and <= 1e\+06",
    "dataset.n_test=100000000000": r"with 100,000,010,000 examples needs 32,000",
    "NPZ trainer.batch_size=1000000000000000000000": r"batch_size must be in \[1, 9223372036854",
    "NPZ trainer.optimizer.lr=inf": r"trainer\.optimizer\.lr must be a finite number, got inf",
    "NPZ dataset.num_classes=1": r"dataset\.num_classes must be >= 2, got 1",
    "eps=${nope}": r"error: \$\{nope\} refers to a key that is not there",
    "mechanism=[rr,rappor]": r"mechanism must be the name of a choice, got \[rr,rappor\]",
    "rerun=maybe": r"rerun must be true or false, got 'maybe'",
    "rerun=true": r"rerun=true has no effect here: .* delete the run's folder",
    "--multirun=3": r"argument --multirun/-m: ignored explicit argument '3' \(overrides are",
    "-m cells=3": r"cells must be a list of blocks, got int",
}  # fmt: skip


@pytest.mark.parametrize("line", BAD)
def test_bad_command_is_one_line_and_leaves_no_result(line, tmp_path, tiny_images):
    # A user would read a traceback, or find a folder that looks like a finished run.
    (tmp_path / "a_file").write_text("")
    whole = (tiny_images / "tiny.npz").read_bytes()
    (tiny_images / "damaged.npz").write_bytes(whole[: len(whole) // 2])
    before = set(tmp_path.rglob("*"))
    outcome = quick([*NPZ, *line.split()[1:]] if "NPZ" in line else line.split(), tmp_path)
    assert outcome.returncode == 2
    said = [text for text in outcome.stdout.splitlines() if not text.startswith("  only ")]
    assert len(said) <= 1  # what was to run
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
        ("# @package _global_\n", "", r"mechanism=mine must begin with # @package _global_"),
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
    assert "Traceback" not in command("eps=abc").stderr
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


def test_missing_official_data_offline_names_the_ways_out(tmp_path):
    # A user without a network would not know what to do.
    nowhere = {key: "http://127.0.0.1:9" for key in ("http_proxy", "https_proxy")}
    outcome = quick(["dataset=mnist", "data_dir=nowhere"], tmp_path, nowhere)
    assert outcome.returncode == 2
    assert "Traceback" not in outcome.stdout + outcome.stderr
    assert re.search(
        r"no file nowhere/mnist\.npz, .*three ways out: run `make data`", outcome.stderr
    )
    assert not records_under(tmp_path)
    assert not list(tmp_path.rglob("*.npz"))
