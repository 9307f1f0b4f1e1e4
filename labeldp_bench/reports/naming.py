"""How papers, mechanisms, methods and data sets are written for people. Imports nothing heavy."""

from collections.abc import Iterable, Mapping

PAPERS = {
    "vector_approximation": "Vector approximation (Zhao et al. 2025)",
    "blockrr": "BlockRR (Liu, Ding 2026)",
    "ple": "Protective label enhancement",
    "theoretical_limits": "Theoretical limits (Zhao et al. 2025)",
}
SMALLER = ("card", "quick")
"""Budgets whose cells stand in lines of their own beside the paper's; those of others do not."""
MECHANISMS = {
    "none": "no privacy", "bayes": "Bayes limit", "rr": "RR", "rappor": "RAPPOR", "alibi": "ALIBI",
    "lp_1st": "LP-1ST", "lp_2st": "LP-2ST", "lp_mst": "LP-MST", "oue": "OUE", "blockrr": "BlockRR",
    "lp_1st_star": "LP-1ST*", "lp_2st_star": "LP-2ST*", "rrwithprior": "RRWithPrior",
    "topk_subset": "top-k subset", "hadamard": "Hadamard", "ple": "PLE", "laplace": "Laplace",
    "clipped_laplace": "clipped Laplace", "rr_on_bins": "RR-on-bins", "pate_fm": "PATE-FM",
    "labeldp_pro": "LabelDP-Pro", "rp_with_prior": "RPWithPrior",
    "unbiased_randomizer": "unbiased randomiser",
}  # fmt: skip
MODELS = {
    "cnn": "CNN", "tiny_cnn": "tiny CNN", "inception": "Inception", "resnet18": "ResNet-18",
    "resnet18_w16": "ResNet-18 of 16 channels", "wrn28_2": "WRN-28-2", "wrn28_4": "WRN-28-4",
    "knn": "kNN", "graph_gaussian_process": "Gaussian process",
}  # fmt: skip
FEATURES = {
    "simclr": "SimCLR", "patches_simclr": "patches and SimCLR",
    "mirrored": "patches and SimCLR, mirrored",
}  # fmt: skip
DATA_SETS = {
    "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "kmnist": "KMNIST", "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
}  # fmt: skip
HALVES, CODE_STAGES, CODE_RECIPE = "halves", "code's stages", "code's recipe"
"""What papers, and we, have run under the one name LP-2ST (docs/mechanisms.md)."""
NO_PROJECTION = "no projection"
"""LabelDP-Pro without its projection is DP-SGD that protects labels alone."""
STAGES_OF_CODE = {(0.8, 0.2): 0.6, (0.7, 0.3): 0.5, (0.6, 0.4): 0.5}
"""{shares of the stages: temperature of the prior} of google-research/label-dp; by eps."""


def name_of(mechanism: str) -> str:
    """Returns how a mechanism is written for people."""
    return MECHANISMS.get(mechanism, mechanism.replace("_", " "))


def model_name_of(model: str) -> str:
    """Returns how a model is written for people."""
    return MODELS.get(model, model.replace("_", " "))


def features_name_of(pretrain: str) -> str:
    """Returns how what was learnt without labels is written for people."""
    return FEATURES.get(pretrain, pretrain.replace("_", " "))


def data_name_of(dataset: str) -> str:
    """Returns how a data set is written for people."""
    return DATA_SETS.get(dataset, dataset)


def setting_of(identity: Mapping[str, object]) -> str:
    """Returns which of the settings of one name a run has: LP-2ST, LabelDP-Pro; else nothing.

    >>> setting_of({"mechanism": "lp_2st", "learner.fractions": [0.5, 0.5]})
    'halves'
    """
    if identity.get("mechanism") == "labeldp_pro":
        return NO_PROJECTION if identity.get("learner.projection") == "none" else ""
    if identity.get("mechanism") not in ("lp_2st", "lp_2st_star"):
        return ""
    shares = identity.get("learner.fractions")
    changed = [
        identity.get(f"learner.{key}")  # without a value: as the pseudocode has it
        for key in ("temperature", "filter_earlier", "warm_start", "domain_weight")
    ]
    if shares == [0.5, 0.5] and changed == [None] * 4:
        return HALVES
    temperature = STAGES_OF_CODE.get(tuple(shares)) if isinstance(shares, list) else None
    if temperature is None or changed != [temperature, True, True, None]:
        return ""
    return CODE_RECIPE if "trainer.mixup.alpha" in identity else CODE_STAGES


def widths_of(identity: Mapping[str, object]) -> str:
    """Returns the channels of a network that has several sizes under one name; else nothing.

    >>> widths_of({"model": "airbench", "model.network.widths": [64, 256, 256]})
    '64 to 256 channels'
    """
    widths = identity.get("model.network.widths")
    if identity.get("model") != "airbench" or not isinstance(widths, list):
        return ""
    return counted(widths, "channel")


def method_name(method: str, setting: str = "") -> str:
    """Returns how a method of a table is written for people.

    Args:
        method: mechanism, and after a `+` what it has in place of its own.
        setting: of `setting_of`.

    >>> method_name("blockrr_l2"), method_name("rappor+marginal")
    ('BlockRR, l=2', 'RAPPOR, marginal')
    >>> method_name("rr+graph_gaussian_process")
    'RR, Gaussian process'
    >>> method_name("lp_2st+marginal", "halves")
    'LP-2ST, halves, marginal'
    """
    mechanism, *extras = method.split("+")
    name, _, tail = mechanism.rpartition("_")
    if tail[:1].isalpha() and tail[1:].isdigit():
        mechanism, extras = name, [f"{tail[0]}={tail[1:]}", *extras]
    extras = [model_name_of(extra) for extra in extras]
    return ", ".join([name_of(mechanism), *([setting] if setting else []), *extras])


def counted(numbers: Iterable[float], noun: str) -> str:
    """Returns how many of something there are, from the least to the most.

    >>> counted([1, 1], "seed"), counted([2, 10_000], "trial")
    ('1 seed', '2 to 10,000 trials')
    """
    few, *_, many = [f"{number:,.0f}" for number in sorted(numbers)] * 2
    shown = few if few == many else f"{few} to {many}"
    return f"{shown} {noun}" + "s" * (shown != "1")
