"""How papers, mechanisms, methods and data sets are written for people. Imports nothing heavy."""

from collections.abc import Iterable

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
    "clipped_laplace": "clipped Laplace", "rr_on_bins": "RR-on-bins",
    "rp_with_prior": "RPWithPrior", "unbiased_randomizer": "unbiased randomiser",
}  # fmt: skip
DATA_SETS = {
    "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "kmnist": "KMNIST", "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
}  # fmt: skip


def name_of(mechanism: str) -> str:
    """Returns how a mechanism is written for people."""
    return MECHANISMS.get(mechanism, mechanism.replace("_", " "))


def data_name_of(dataset: str) -> str:
    """Returns how a data set is written for people."""
    return DATA_SETS.get(dataset, dataset)


def method_name(method: str) -> str:
    """Returns how a method of a table is written for people.

    >>> method_name("blockrr_l2"), method_name("rappor+marginal")
    ('BlockRR, l=2', 'RAPPOR, marginal')
    """
    mechanism, *extras = method.split("+")
    name, _, tail = mechanism.rpartition("_")
    if tail[:1].isalpha() and tail[1:].isdigit():
        mechanism, extras = name, [f"{tail[0]}={tail[1:]}", *extras]
    return ", ".join([name_of(mechanism), *extras])


def counted(numbers: Iterable[float], noun: str) -> str:
    """Returns how many of something there are, from the least to the most.

    >>> counted([1, 1], "seed"), counted([2, 10_000], "trial")
    ('1 seed', '2 to 10,000 trials')
    """
    few, *_, many = [f"{number:,.0f}" for number in sorted(numbers)] * 2
    shown = few if few == many else f"{few} to {many}"
    return f"{shown} {noun}" + "s" * (shown != "1")
