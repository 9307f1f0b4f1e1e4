"""How papers, mechanisms, methods and data sets are written for people. Imports nothing heavy."""

from collections.abc import Iterable, Mapping

MECHANISMS = {
    "none": "no privacy", "bayes": "Bayes limit", "rr": "RR", "rappor": "RAPPOR", "alibi": "ALIBI",
    "lp_1st": "LP-1ST", "lp_2st": "LP-2ST", "lp_mst": "LP-MST", "oue": "OUE", "blockrr": "BlockRR",
    "lp_1st_star": "LP-1ST*", "lp_2st_star": "LP-2ST*", "rrwithprior": "RRWithPrior",
    "hadamard": "Hadamard", "ple": "PLE", "laplace": "Laplace",
    "clipped_laplace": "clipped Laplace", "rr_on_bins": "RR-on-bins", "pate_fm": "PATE-FM",
    "labeldp_pro": "LabelDP-Pro", "rp_with_prior": "RPWithPrior",
    "unbiased_randomizer": "unbiased randomiser",
}  # fmt: skip
DATA_SETS = {
    "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "kmnist": "KMNIST", "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
}  # fmt: skip
HALVES, CODE_STAGES, CODE_RECIPE = "halves", "code's stages", "code's recipe"
"""What papers, and we, have run under the one name LP-2ST (docs/mechanisms.md)."""
NO_PROJECTION = "no projection"
"""LabelDP-Pro without its projection is DP-SGD that protects only labels."""
STAGES_OF_CODE = {(0.8, 0.2): 0.6, (0.7, 0.3): 0.5, (0.6, 0.4): 0.5}
"""{shares of the stages: temperature of the prior} of google-research/label-dp; by eps."""


def name_of(mechanism: str) -> str:
    """Returns how a mechanism is written for people."""
    return MECHANISMS.get(mechanism, mechanism.replace("_", " "))


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


def counted(numbers: Iterable[float], noun: str) -> str:
    """Returns how many of something there are, from the least to the most.

    >>> counted([1, 1], "seed"), counted([2, 10_000], "trial")
    ('1 seed', '2 to 10,000 trials')
    """
    few, *_, many = [f"{number:,.0f}" for number in sorted(numbers)] * 2
    shown = few if few == many else f"{few} to {many}"
    return f"{shown} {noun}" + "s" * (shown != "1")
