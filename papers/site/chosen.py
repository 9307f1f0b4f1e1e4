"""How what no paper states was chosen in a method: beforehand, by releases, or after a look."""

from collections.abc import Mapping

Choice = tuple[Mapping[str, str], str]
"""(what a run's identity has, what was chosen in all such runs)."""
STATED = "stated beforehand"
BY_RELEASES: tuple[Choice, ...] = (
    ({"model": "probe"}, "penalty by held-out releases"),
    ({"model": "ridge", "learner": "single_stage"}, "penalty by releases"),
    ({"learner": "moments"}, "prior of the weights by releases"),
    ({"model": "eigenmaps"}, "number of functions by held-out releases"),
    ({"model": "laplace_learning"}, "penalty by held-out releases"),
    ({"model": "graph_gaussian_process"}, "prior by the likelihood of all releases"),
)
"""Post-processing, which costs no privacy."""
AFTER_A_LOOK: tuple[Choice, ...] = (
    (
        {"model": "ridge", "learner": "single_stage"},
        "the largest penalty after a test score on CIFAR-10",
    ),
    ({"model": "eigenmaps"}, "the design after test scores on MNIST and Fashion-MNIST"),
    (
        {"model": "graph_gaussian_process"},
        "the design after true training labels and test scores of CIFAR-10, and test scores on "
        "MNIST; graph and functions after test scores on MNIST and Fashion-MNIST",
    ),
    ({"learner": "moments"}, "the form of that prior after test scores on MNIST"),
    ({"model": "clusters"}, "how many functions and clusters after a look at labels"),
    ({"learner": "fixmatch"}, "when guesses begin to teach after a test score on MNIST"),
    ({"learner": "noisy_sgd"}, "rate, momentum and steps after true training labels of MNIST"),
    ({"dataset": "mnist", "pretrain": "simclr"}, "epochs of pre-training after test scores"),
    *(
        ({"dataset": "fashion_mnist", "pretrain": name}, "patches after true training labels")
        for name in ("patches", "patches_simclr")
    ),
    *(
        (
            {"dataset": "cifar10", "model": model, "pretrain": name},
            "patches after true training labels",
        )
        for model in ("probe", "graph_gaussian_process")
        for name in ("patches_simclr", "mirrored")
    ),
    (
        {"dataset": "fashion_mnist", "model": "resnet18_w16"},
        "one stage or two after true training labels",
    ),
    *(
        ({"dataset": name, "model": "airbench"}, "network and recipe after true training labels")
        for name in ("fashion_mnist", "cifar10")
    ),
)
"""By test scores or true labels; the YAML of each says so."""


def chosen_how(identity: Mapping[str, object]) -> str:
    """Returns how what no paper states was chosen for a run's method.

    >>> chosen_how({"model": "cnn", "learner": "single_stage", "dataset": "mnist"})
    'stated beforehand'
    """
    found = ["recipe by held-out releases"] if identity.get("tuning") else []
    return "; ".join([*found, *_of(identity, BY_RELEASES), *looks(identity)]) or STATED


def looks(identity: Mapping[str, object]) -> list[str]:
    """Returns what was chosen after a look at test scores or true labels for a run's method."""
    return _of(identity, AFTER_A_LOOK)


def _of(identity: Mapping[str, object], choices: tuple[Choice, ...]) -> list[str]:
    return [text for has, text in choices if has.items() <= identity.items()]
