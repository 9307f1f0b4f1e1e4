"""How papers, networks, features and methods of tables are written for people."""

from collections.abc import Mapping

from labeldp_bench.reports.naming import counted, name_of

PAPERS = {
    "vector_approximation": "Vector approximation (Zhao et al. 2025)",
    "blockrr": "BlockRR (Liu, Ding 2026)",
    "ple": "Protective label enhancement",
    "theoretical_limits": "Theoretical limits (Zhao et al. 2025)",
}
FEATURES_BUDGET = "features"
"""The papers' mechanisms on a public encoder, in place of the papers' networks."""
SMALLER = ("card", FEATURES_BUDGET, "quick")
"""Budgets whose cells a table shows in lines of their own, below those of the paper's budget."""
MODELS = {
    "cnn": "CNN", "tiny_cnn": "tiny CNN", "resnet18": "ResNet-18",
    "resnet18_w16": "ResNet-18 of 16 channels", "wrn28_2": "WRN-28-2", "wrn28_4": "WRN-28-4",
    "knn": "kNN", "graph_gaussian_process": "Gaussian process",
}  # fmt: skip
FEATURES = {
    "imagenet": "ImageNet",
    "simclr": "SimCLR", "patches_simclr": "patches and SimCLR",
    "mirrored": "patches and SimCLR, mirrored",
}  # fmt: skip


def model_name_of(model: str) -> str:
    """Returns how a model is written for people."""
    return MODELS.get(model, model.replace("_", " "))


def features_name_of(pretrain: str) -> str:
    """Returns how what was learnt before any release is written for people."""
    return FEATURES.get(pretrain, pretrain.replace("_", " "))


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
