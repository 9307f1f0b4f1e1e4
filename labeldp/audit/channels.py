"""Measurements of single labels and of groups as channels that an audit draws from."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
from torch import Generator, Tensor

from labeldp.audit.fit import (
    Ask,
    GoodnessOfFit,
    Law,
    all_of,
    certain,
    laplace_fit,
    laplace_law,
    laplace_shape,
    misfit,
    own_stream,
)
from labeldp.mechanisms import (
    ClassMechanism,
    CubeMeans,
    ExponentialCubes,
    FullCubeMeans,
    GroupMechanism,
    Laplace,
    LaplaceHistogram,
    LocalFull,
    Messages,
    NoisyClusters,
    RealMechanism,
)
from labeldp.mechanisms.encodings import AsReleased
from labeldp.mechanisms.noise import step_of


@dataclass(frozen=True)
class Channel:
    """What an audit by draws needs to know of a measurement.

    Attributes:
        name: which measurement it is.
        inputs: a few words for each input, I >= 2 of them. Any two differ in what the mechanism
            protects: one label, or one whole example.
        ask: gives an output of each input that is numbered, drawn independently.
        law: the claimed log probability, or log density, of outputs under each input, up to a term
            that all inputs share; None where it is not known.
        most: draws in total that can be afforded.
        chunk: outputs that are held in memory at once.
        noise: (draws, generator) -> a further comparison with the stated noise, or None.
        delta: of the claim.
        in_one_call: whether the outputs of `ask` come from one call, and might share noise.
    """

    name: str
    inputs: tuple[str, ...]
    ask: Ask
    law: Law | None
    most: int = 4_000_000
    chunk: int = 50_000
    noise: Callable[[int, Generator], GoodnessOfFit | None] | None = None
    delta: float = 0.0
    in_one_call: bool = True

    def draw(self, number: int, size: int, generator: Generator) -> Tensor:
        """Returns so many outputs of one input."""
        return self.ask(torch.full((size,), number), generator)

    def batches(self, size: int) -> list[int]:
        """Returns the sizes of the batches that `size` draws of one input are made in."""
        whole, rest = divmod(size, self.chunk)
        return [self.chunk] * whole + ([rest] if rest else [])


MOST_INPUTS = 10
MOST_VALUES = 5
MOST_ENTRIES = 100_000_000
"""Entries that may be drawn in one audit: 1,000 classes leave 100,000 draws."""
IN_MEMORY = 2_000_000
BEYOND = 10.0
"""Real labels this many times beyond the bound must be treated as the bound."""
CALLS = 20_000
"""Draws in total where every draw is a call."""
K = 3
FEW = 4
LEVELS = ((0, 1, 3), (10, 100, 1000))
"""Counts of three classes whose noise is looked at: of no label, of few and of many."""
COPIES = 2000


def class_channels(
    mechanism: ClassMechanism, num_classes: int, prior: Tensor | None
) -> list[Channel]:
    """Returns the channels of a mechanism for classes: its release, sums and messages."""
    half = MOST_INPUTS // 2
    ends = [*range(half), *range(num_classes - half, num_classes)]
    labels = torch.tensor(list(range(num_classes)) if num_classes <= MOST_INPUTS else ends)
    form = mechanism.encoding(num_classes)

    def release(numbers: Tensor, generator: Generator) -> Tensor:
        return mechanism.release(labels[numbers], num_classes, generator, prior)

    def sums(numbers: Tensor, generator: Generator) -> Tensor:
        size = len(numbers)
        asked = mechanism.over(torch.arange(size), size)
        single = release(numbers[:1], torch.Generator().manual_seed(0))
        found = asked(labels[numbers], num_classes, generator)
        return found.argmax(1) if single.dim() == 1 else found.to(single.dtype)

    def messages(numbers: Tensor, generator: Generator) -> Tensor:
        return form.outputs(Messages(mechanism)(labels[numbers], num_classes, generator))

    def law(outputs: Tensor) -> Tensor:
        return mechanism.log_likelihood(outputs, num_classes, prior)[:, labels]

    inputs = tuple(f"label {label}" for label in labels.tolist())
    chunk, most = max(1, IN_MEMORY // num_classes), max(1000, MOST_ENTRIES // num_classes)
    first = Channel("release", inputs, release, law, most, chunk)
    channels = [first]
    # Sums and messages take no prior: they are drawn as without one.
    if prior is None and chunk > 1000:
        channels.append(replace(first, name="group sums", ask=sums, chunk=min(chunk, 20_000)))
    if prior is None and not isinstance(form, AsReleased):  # leaves by draws of its own
        channels.append(replace(first, name="messages", ask=messages))
    return channels


def real_channels(mechanism: RealMechanism, bound: float = 1.0) -> list[Channel]:
    """Returns the channels of a mechanism for real labels: its release, and sums."""
    reach = mechanism.reach(bound) if isinstance(mechanism, Laplace) else bound
    values = mechanism.breakpoints(bound)[1]
    ends = values[torch.linspace(0, len(values) - 1, MOST_VALUES).round().long().unique()].tolist()
    if isinstance(mechanism, Laplace):  # it clips; the others never see a label beyond the bound
        ends = [-BEYOND * reach, *ends, BEYOND * reach]
    labels = torch.tensor(ends, dtype=torch.float64)
    clipped = labels.clamp(-reach, reach)

    def release(numbers: Tensor, generator: Generator) -> Tensor:
        return mechanism.release(labels[numbers], bound, generator)

    def sums(numbers: Tensor, generator: Generator) -> Tensor:
        size = len(numbers)
        return mechanism.over(torch.arange(size), size)(labels[numbers], bound, generator)

    def law(outputs: Tensor) -> Tensor:
        return mechanism.log_density(outputs, clipped, bound)

    first = Channel("release", tuple(f"label {value:g}" for value in ends), release, law)
    return [first, replace(first, name="group sums", ask=sums)]


def copies(
    mechanism: GroupMechanism,
    limit: float,
    contents: list[list[Tensor]],
    read: Callable[[Tensor], Tensor] = lambda answers: answers.flatten(1),
) -> Ask:
    """Returns how many copies of small data sets are drawn in one call.

    Args:
        mechanism: answers about groups.
        limit: K, or the bound of real labels.
        contents: of each input, the labels of each group of its data set, (n_g,); a group may be
            empty. All inputs have as many labels, and as many groups.
        read: answers of each copy, (n, G, ...) -> outputs, first axis n.
    """
    labels = torch.stack([torch.cat(groups) for groups in contents])
    sizes = torch.tensor([[len(part) for part in groups] for groups in contents])
    count = sizes.shape[1]
    members = torch.stack([torch.arange(count).repeat_interleave(each) for each in sizes])

    def ask(numbers: Tensor, generator: Generator) -> Tensor:
        copy = count * torch.arange(len(numbers))
        groups = (members[numbers] + copy[:, None]).flatten()
        asked = mechanism.over(groups, count * len(numbers))
        answers = asked(labels[numbers].flatten(), limit, generator)
        return read(answers.unflatten(0, (len(numbers), count)))

    return ask


def _joined(others: list[Tensor], group: int, own: float) -> list[Tensor]:
    """Returns the labels of each group with the own one, which is in `group`."""
    return [
        torch.cat([part, torch.tensor([own] if g == group else []).to(part.dtype)])
        for g, part in enumerate(others)
    ]


def cube_classes(mechanism: ExponentialCubes) -> list[Channel]:
    """Two groups; the own example is in the first one or, if features are protected, in either."""
    others = [torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1])]
    groups = (0, 1) if mechanism.protects == "labels and features" else (0,)
    own = list(itertools.product(groups, range(K)))
    contents = [_joined(others, group, label) for group, label in own]
    tables = []
    for content in contents:
        counts = torch.stack([torch.bincount(part, minlength=K) for part in content])
        first, second = mechanism.log_probabilities(counts)
        tables.append((first[:, None] + second[None, :]).flatten())
    table = torch.stack(tables, 1)
    inputs = tuple(f"class {label} in group {group}" for group, label in own)
    ask = copies(mechanism, K, contents, lambda answers: answers[:, 0] * K + answers[:, 1])
    return [Channel("group sums", inputs, ask, lambda outputs: table[outputs])]


def cluster_counts(mechanism: NoisyClusters) -> list[Channel]:
    """One group of three labels, two of them known."""
    contents = [_joined([torch.tensor([0, 1])], 0, label) for label in range(K)]
    means = torch.stack([torch.bincount(part, minlength=K) for (part,) in contents]).double()

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Looks at counts of all sizes: none may be left out, cut off, or shown as it is."""
        numbers, values = torch.zeros(min(max(100, draws), COPIES), dtype=torch.int64), []
        for counts in LEVELS:
            content = [torch.arange(K).repeat_interleave(torch.tensor(counts))]
            drawn = copies(mechanism, K, [content])(numbers, own_stream(generator, "counts"))
            sizes = (drawn - torch.tensor(counts)).abs().numpy()
            values += [laplace_shape(column, 1 / mechanism.scale) for column in sizes.T]
        return certain(GoodnessOfFit(min(1.0, len(values) * min(values)), 0.0))

    return [
        Channel(
            "group sums",
            tuple(f"class {label}" for label in range(K)),
            copies(mechanism, K, contents),
            lambda outputs: laplace_law(outputs, means, mechanism.scale),
            noise=noise,
        )
    ]


def cube_means(mechanism: CubeMeans, bound: float = 1.0) -> list[Channel]:
    """The own label may lie beyond the bound.

    One group of three labels, two of them known. Where features are secret: three groups, about as
    large as n_0, n_0 and the rest, and the own example in one of two. There a moved example changes
    both means by nearly as much as the noise allows for.
    """
    reach, is_full = mechanism.reach(bound), isinstance(mechanism, FullCubeMeans)
    others = [torch.tensor([reach, -reach / 2], dtype=torch.float64)]
    few = [torch.zeros(0).double(), torch.zeros(6 * FEW).double()]
    if is_full:
        others = [
            torch.full((size,), value).double()
            for size, value in ((FEW, reach), (FEW, -reach), (4 * FEW - 1, 0.0))
        ]
        few = [torch.zeros(size).double() for size in (0, 0, 6 * FEW - 1)]
    places = [reach * place for place in (-BEYOND, -1.0, 1.0, BEYOND)]
    own = list(itertools.product((0, 1) if is_full else (0,), places))
    seen = 3 if is_full else 1  # the noise of other groups has scales of their own

    def mean(parts: list[Tensor]) -> Tensor:
        sums = torch.stack([part.clamp(-reach, reach).sum() for part in parts])
        return (sums / mechanism.divisors(torch.tensor([len(part) for part in parts])))[:seen]

    def asked(rest: list[Tensor]) -> tuple[Ask, Law]:
        contents = [_joined(rest, group, value) for group, value in own]
        means = torch.stack([mean(content) for content in contents])
        sizes = torch.tensor([len(part) for part in contents[0]])
        scale = float(mechanism.scales(sizes, bound)[0])
        ask = copies(mechanism, bound, contents, lambda answers: answers[:, :seen])
        return ask, lambda outputs: laplace_law(outputs, means, scale)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Looks at small groups beside large ones, where a mean is divided by little."""
        return misfit(*asked(few), len(own), draws, own_stream(generator, "few"))

    inputs = tuple(f"label {value:g} in group {group}" for group, value in own)
    return [Channel("group sums", inputs, *asked(others), chunk=20_000, noise=noise)]


def local_full_channels(mechanism: LocalFull) -> list[Channel]:
    """Returns the channels of examples with a class, and of those with a real label."""
    return [_local_classes(mechanism), _local_values(mechanism)]


def _local_classes(mechanism: LocalFull) -> Channel:
    """One example, two groups, two classes."""
    own = [(0, 0), (0, 1), (1, 0)]
    means = torch.zeros((3, 4), dtype=torch.float64)
    for number, (group, label) in enumerate(own):
        means[number, 2 * group + label] = 1

    @cache
    def asked(number: int, groups: int) -> tuple[LocalFull, Tensor]:
        group, label = (torch.tensor([part]) for part in own[number])
        return mechanism.over(group, groups), label

    def answer(number: int, groups: int, generator: Generator) -> Tensor:
        over, label = asked(number, groups)
        return over(label, 2, generator)

    def ask(numbers: Tensor, generator: Generator) -> Tensor:
        return torch.stack([answer(n, 2, generator).flatten() for n in numbers.tolist()])

    def noise(draws: int, generator: Generator) -> GoodnessOfFit:
        rows = answer(2, draws // 2, generator)
        return laplace_fit(rows[2:].flatten(), mechanism.class_scale)

    return Channel(
        "group sums, classes",
        tuple(f"class {label} in group {group}" for group, label in own),
        ask,
        lambda outputs: laplace_law(outputs, means, mechanism.class_scale),
        most=CALLS,
        noise=noise,
        in_one_call=False,
    )


def _local_values(mechanism: LocalFull, bound: float = 1.0) -> Channel:
    """One example, two groups: the noisy sum and size of each; means are made of them alone."""
    reach = mechanism.reach(bound)
    places = (-BEYOND, -1.0, 1.0, BEYOND)
    own = [*((0, reach * place) for place in places), (1, reach)]
    scales = torch.tensor([mechanism.value_scale(reach), mechanism.size_scale]).double()
    means = torch.zeros((len(own), 2, 2), dtype=torch.float64)
    for number, (group, value) in enumerate(own):
        means[number, :, group] = torch.tensor([min(max(value, -reach), reach), 1.0])

    @cache
    def asked(number: int, groups: int) -> tuple[LocalFull, Tensor]:
        group, value = own[number]
        label = torch.tensor([value], dtype=torch.float64)
        return mechanism.over(torch.tensor([group]), groups), label

    def answer(number: int, groups: int, generator: Generator) -> Tensor:
        over, label = asked(number, groups)
        return torch.stack(over.noisy_sums(label, bound, generator))

    def ask(numbers: Tensor, generator: Generator) -> Tensor:
        parts = torch.stack([answer(n, 2, generator) for n in numbers.tolist()])
        return (parts / scales[:, None]).flatten(1)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Looks at groups without labels, and at a label that must be clipped."""
        sums, sizes = answer(4, draws // 2, generator)[:, 2:]
        far = torch.cat([answer(3, 1, generator)[0] for _ in range(min(draws // 2, COPIES))])
        step = step_of(reach)
        scale = mechanism.value_scale(round(reach / step))
        fits = [laplace_fit((part / step).round(), scale) for part in (sums, far - reach)]
        return all_of([*fits, laplace_fit(sizes, mechanism.size_scale)])

    return Channel(
        "group sums, real labels",
        tuple(f"label {value:g} in group {group}" for group, value in own),
        ask,
        lambda outputs: laplace_law(outputs, (means / scales[:, None]).flatten(1), 1.0),
        most=CALLS,
        noise=noise,
        in_one_call=False,
    )


def histogram_counts(histogram: LaplaceHistogram) -> list[Channel]:
    """Returns the channel of a histogram.

    n copies of one label with two classes of its own each: 2 n classes in total.
    """
    means = torch.eye(2, dtype=torch.float64)

    def ask(numbers: Tensor, generator: Generator) -> Tensor:
        size = len(numbers)
        return histogram(2 * torch.arange(size) + numbers, 2 * size, generator).reshape(size, 2)

    law = partial(laplace_law, means=means, scale=histogram.scale)
    return [Channel(histogram.name, ("class 0", "class 1"), ask, law)]
