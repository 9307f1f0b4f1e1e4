"""A command for each choice that runs as it stands, so that help can show it."""

from pathlib import Path

from labeldp_bench.cli.help_configs import brings, choices_of
from labeldp_bench.cli.help_mechanisms import mechanism_class

IMAGES, POINTS, REALS = "mnist", "circle", "holder_regression"
TOGETHER = {"mechanism": "labeldp_pro", "learner": "noisy_sgd", "model": "tiny_cnn"}
"""A learner and a model of which neither does without the other, and their mechanism."""


def example(group: str, name: str, own: str | None = None) -> str:
    """Returns the overrides of an example with this choice, with data and model that suit it.

    Args:
        group: of the choice.
        name: of the choice.
        own: a folder of the user's own configs.
    """
    if group == "experiment":
        return f"experiment={name}"
    if group == "budget":
        return f"experiment=quickstart budget={name}"
    if group == "sweep":
        return f"sweep={name} mechanism=rr"
    if group == "mechanism":
        return _of_mechanism(name, own)
    if TOGETHER.get(group) == name:
        together = " ".join(f"{key}={choice}" for key, choice in TOGETHER.items())
        return f"dataset={IMAGES} {together} eps=1"
    if group == "stages":
        return f"dataset={IMAGES} mechanism=lp_2st {group}={name} eps=1"
    if group == "dataset":
        file = " dataset.name=mine dataset.num_classes=10" if name == "npz" else ""
        real = brings(choices_of(group, own)[name]).get("learner") == "local_averages"
        return f"dataset={name}{file} mechanism={'laplace' if real else 'rappor'} eps=1"
    # The first that brings this choice with it shows it as its author meant it.
    for other, user in (("dataset", "dataset"), ("mechanism", "mechanism"), ("model", "model")):
        for each, path in choices_of(other, own).items():
            if brings(path).get(group) != name:
                continue
            if user == "mechanism":
                return f"{_of_mechanism(each, own)} {group}={name}"
            if user == "model":
                return f"dataset={IMAGES} model={each} {group}={name} mechanism=rappor eps=1"
            return f"{example('dataset', each, own)} {group}={name}"
    if group == "learner":  # of the class of one that a mechanism brings: it needs that mechanism
        target = _target_of(choices_of(group, own)[name])
        for each, path in choices_of("mechanism", own).items():
            brought = choices_of(group, own).get(str(brings(path).get(group)))
            if brought is not None and _target_of(brought) == target:
                return f"{_of_mechanism(each, own)} {group}={name}"
    if group == "pretrain" and name.startswith("patches"):  # features that stay as they are
        return f"dataset={IMAGES} model=ridge {group}={name} mechanism=rappor eps=1"
    data = POINTS if name in ("single_stage", "none") else _images_of(name)
    mechanism = "rappor" if group != "learner" else "rr"
    # Features that stay as they are suit no network.
    model = " model=ridge" if group == "pretrain" and name != "none" else ""
    return f"dataset={data} {group}={name}{model} mechanism={mechanism} eps=1"


def _of_mechanism(name: str, own: str | None) -> str:
    path = choices_of("mechanism", own)[name]
    brought, kind = brings(path), mechanism_class(path)
    tasks = (
        next((vars(each)["tasks"] for each in kind.__mro__ if "tasks" in vars(each)), ())
        if kind
        else ()
    )
    eps = "" if "eps: ${eps}" not in path.read_text() and not brought.get("pretrain") else " eps=1"
    if tasks and "classification" not in tasks:
        return f"mechanism={name} dataset={REALS}{eps}"
    if brought.get("pretrain"):
        return f"mechanism={name} dataset=cifar10{eps}"
    if brought.get("model") or brought.get("trainer"):
        return f"mechanism={name} dataset={IMAGES}{eps}"
    if brought.get("learner") == "local_averages":
        return f"mechanism={name} dataset=holder_classification{eps}"
    few = " dataset.num_classes=10" if name == "optimal" else ""
    return f"mechanism={name} dataset={POINTS}{few}{eps}"


def _target_of(path: Path) -> str:
    """Returns the class that a YAML names."""
    return next(line for line in path.read_text().splitlines() if line.startswith("_target_"))


def _images_of(name: str) -> str:
    """Returns the data that a network or a recipe is for, by its name."""
    colour = ("resnet", "wrn", "cifar", "alibi", "blockrr")
    return "cifar10" if any(word in name for word in colour) else IMAGES
