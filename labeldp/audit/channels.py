"""The samplers of a mechanism for single labels, as channels for an audit by draws.

Both samplers that a run can reach are audited: `release`, and `release_groups`, which may draw the
sum of many releases from its exact law.
"""

import torch
from torch import Generator, Tensor

from labeldp.audit.channel import Channel, Mixed, of_one
from labeldp.audit.group_channels import group_channels
from labeldp.audit.local_channels import BEYOND
from labeldp.audit.sums import releases_sums, sums_channels
from labeldp.audit.votes import votes_channels
from labeldp.mechanisms import (
    ClassMechanism,
    GroupMechanism,
    Laplace,
    Mechanism,
    PateFM,
    RealMechanism,
)
from labeldp.mechanisms.encodings import AsReleased
from labeldp.support.validate import InputError

MOST_INPUTS = 10
MOST_VALUES = 5
MOST_ENTRIES = 100_000_000
"""Entries that may be drawn in one audit: 1,000 classes leave 100,000 draws."""
IN_MEMORY = 2_000_000


def channels_of(mechanism: Mechanism, num_classes: int, prior: Tensor | None) -> list[Channel]:
    """Returns a channel for each sampler of the mechanism.

    Args:
        mechanism: for classes, real labels or groups.
        num_classes: K, of mechanisms for classes.
        prior: global, float64 (K,), or None for uniform; for mechanisms for classes.
    """
    if isinstance(mechanism, ClassMechanism):
        return _class_channels(mechanism, num_classes, prior)
    if isinstance(mechanism, RealMechanism):
        return _real_channels(mechanism)
    if isinstance(mechanism, GroupMechanism):
        return group_channels(mechanism)
    if releases_sums(mechanism):
        return sums_channels(mechanism)
    if isinstance(mechanism, PateFM):
        return votes_channels(mechanism)
    raise InputError(f"no audit by draws is known for {type(mechanism).__name__}")


def _class_channels(
    mechanism: ClassMechanism, num_classes: int, prior: Tensor | None
) -> list[Channel]:
    half = MOST_INPUTS // 2
    ends = [*range(half), *range(num_classes - half, num_classes)]
    labels = list(range(num_classes)) if num_classes <= MOST_INPUTS else ends
    inputs = tuple(f"label {label}" for label in labels)
    chosen = torch.tensor(labels)

    def release(asked: Tensor, generator: Generator) -> Tensor:
        return mechanism.release(asked, num_classes, generator, prior)

    def sums(asked: Tensor, generator: Generator) -> Tensor:
        size = len(asked)
        sums = mechanism.release_groups(asked, num_classes, torch.arange(size), size, generator)
        single = mechanism.release(asked[:1], num_classes, torch.Generator().manual_seed(0), prior)
        return sums.argmax(1) if single.dim() == 1 else sums.to(single.dtype)

    def law(outputs: Tensor) -> Tensor:
        return mechanism.log_likelihood(outputs, num_classes, prior)[:, chosen]

    chunk, most = max(1, IN_MEMORY // num_classes), max(1000, MOST_ENTRIES // num_classes)

    def channel(name: str, sampler: Mixed, chunk: int) -> Channel:
        def mixed(numbers: Tensor, generator: Generator) -> Tensor:
            return sampler(chosen[numbers], generator)

        return Channel(name, inputs, of_one(mixed), law, most, chunk, mixed=mixed)

    channels = [channel("release", release, chunk)]
    # Sums and messages take no prior: they are drawn as without one.
    if prior is None and chunk > 1000:
        channels.append(channel("release_groups", sums, min(chunk, 20_000)))
    form = mechanism.encoding(num_classes) if prior is None else None
    if form is not None and not isinstance(form, AsReleased):  # own labels leave by its own draws

        def messages(asked: Tensor, generator: Generator) -> Tensor:
            return form.outputs(form.draw(asked, generator))

        channels.append(channel("release_messages", messages, chunk))
    return channels


def _real_channels(mechanism: RealMechanism, bound: float = 1.0) -> list[Channel]:
    reach = mechanism.reach(bound) if isinstance(mechanism, Laplace) else bound
    values = mechanism.breakpoints(bound)[1]
    ends = values[torch.linspace(0, len(values) - 1, MOST_VALUES).round().long().unique()].tolist()
    if isinstance(mechanism, Laplace):  # it clips; the others never see a label beyond the bound
        ends = [-BEYOND * reach, *ends, BEYOND * reach]
    inputs = tuple(f"label {value:g}" for value in ends)
    places = torch.tensor(ends, dtype=torch.float64)
    clipped = places.clamp(-reach, reach)

    def release(asked: Tensor, generator: Generator) -> Tensor:
        return mechanism.release(asked, bound, generator)

    def sums(asked: Tensor, generator: Generator) -> Tensor:
        size = len(asked)
        return mechanism.release_groups(asked, bound, torch.arange(size), size, generator)

    def law(outputs: Tensor) -> Tensor:
        return mechanism.log_density(outputs, clipped, bound)

    def channel(name: str, sampler: Mixed) -> Channel:
        def mixed(numbers: Tensor, generator: Generator) -> Tensor:
            return sampler(places[numbers], generator)

        return Channel(name, inputs, of_one(mixed), law, mixed=mixed)

    return [channel("release", release), channel("release_groups", sums)]
