"""Stand-ins for the codes in claims.yaml: functions of our own that draw labels as the codes do.

eps = 1 and ten classes, unless an argument says otherwise. With fault=False a function is what the
code was meant to be.
"""

from functools import partial

import numpy as np

EPS, CLASSES, TOP = 1.0, 10, 3
E = np.exp(EPS)
STREAM = np.random.default_rng()  # several codes have a fixed seed
RR = np.ones((CLASSES, CLASSES)) + (E - 1) * np.eye(CLASSES)
"""Randomised response: the weight of each release, row = true label."""
KEPT = {}
PRIOR = np.array([0.30, 0.20, 0.15, 0.10, 0.05, 0.05, 0.05, 0.04, 0.03, 0.03])


def drawn(labels, weights, uniform=None):
    """Returns released labels, from each true label's row of weights."""
    uniform = STREAM.random((len(labels), 1)) if uniform is None else uniform
    sums = (weights / weights.sum(1, keepdims=True)).cumsum(1)
    return (sums[labels] < uniform).sum(1).clip(0, weights.shape[1] - 1)


def binary(labels):
    """Labels 0 and 1 that stay with probability e^eps / (e^eps + 1), in one call."""
    keeps = STREAM.binomial(1, E / (E + 1), len(labels))
    return np.abs(1 - keeps - labels)


def response(labels):
    """Randomised response: another label is drawn from all others."""
    keeps = STREAM.binomial(1, E / (E + CLASSES - 1), len(labels))
    return np.where(keeps, labels, (labels + STREAM.integers(1, CLASSES, len(labels))) % CLASSES)


def inspire_response(labels):
    """inspire-group: the rest of one uniform number says which other label is released."""
    keep, other = np.array([E, 1]) / (E + CLASSES - 1)
    uniform = STREAM.random(len(labels))
    place = ((uniform - keep) / other).astype(int).clip(0, CLASSES - 2)
    return np.where(uniform < keep, labels, place + (place >= labels))


def two_processes(labels):
    """GOPHER-MultiLP: two processes, each with a copy of one generator."""
    uniform = STREAM.random(-(-len(labels) // 2))
    return drawn(labels, RR, np.resize(uniform, (len(labels), 1)))


def kept(labels):
    """Without the fault of secretflow: the same noise whenever the same labels are asked for."""
    return KEPT.setdefault(labels.tobytes(), binary(labels))  # stands for the rows' ids


def unchanged(labels):
    """secretflow: a party without features trains with the labels as they are."""
    return labels


def bits(labels, one, zero):
    """Returns bits that are 1 with probability `one` for the true class, `zero` for the others."""
    chances = np.where(np.eye(CLASSES)[labels] == 1, one, zero)
    return (STREAM.random(chances.shape) < chances).astype(int)


HALF = 1 / (np.exp(EPS / 2) + 1)
FLIP = round(1 / (0.5 * np.exp(EPS / 2) + 0.5), 2) / 2
oue = partial(bits, one=0.5, zero=1 / (E + 1))
symmetric_bits = partial(bits, one=1 - HALF, zero=HALF)
bits_drawn_twice = partial(bits, one=1 - (1 - HALF) * HALF, zero=HALF)
rappor_never_cleared = partial(bits, one=1, zero=FLIP)
rappor = partial(bits, one=1 - FLIP, zero=FLIP)


def subset(labels, fault=True):
    """multi-freq-ldpy: subsets in which the true label, if it is there, comes first."""
    size = max(1, round(CLASSES / (E + 1)))
    others = np.argsort(STREAM.random((len(labels), CLASSES - 1)), axis=1)[:, :size]
    others += others >= labels[:, None]
    keeps = STREAM.random((len(labels), 1)) <= size * E / (size * E + CLASSES - size)
    released = np.where(keeps, np.column_stack([labels, others[:, 1:]]), others)
    return released if fault else np.sort(released, axis=1)


sorted_subset = partial(subset, fault=False)


def rr_with_prior(labels, prior=PRIOR):
    """Google: RRWithPrior; k maximises the code's score, with k - 2 for k - 1."""
    order = np.argsort(-prior)
    k = np.argmax(np.cumsum(prior[order]) / (1 + (np.arange(CLASSES) - 1) / E)) + 1
    weights = RR.copy()
    weights[:, order[k:]] = 0
    return drawn(labels, weights)


def two_stages(labels):
    """Google: half of the labels by RR, the others under a prior learnt from that half."""
    released, first = labels.copy(), STREAM.random(len(labels)) < 0.5
    released[first] = rr_with_prior(labels[first], np.full(CLASSES, 1 / CLASSES))
    shares = (np.bincount(released[first], minlength=CLASSES) + 1) ** 2.0  # temperature 0.5
    released[~first] = rr_with_prior(labels[~first], shares / shares.sum())
    return released


def rr_top_k(labels):
    """RRTop-k as the paper has it; the TOP most likely classes are 0, 1, 2."""
    return drawn(labels, RR * (np.arange(CLASSES) < TOP))


def top_k_from_all_others(labels):
    """DPMLBench: "another label" is drawn from all classes, not from the TOP."""
    keep = (labels < TOP) & (STREAM.random(len(labels)) < E / (E + TOP - 1))
    return np.where(keep, labels, (labels + STREAM.integers(1, CLASSES, len(labels))) % CLASSES)


def top_k_left(labels):
    """ID2Graph and VFLAIR: labels outside the TOP classes become any class."""
    weights = RR * (np.arange(CLASSES) < TOP)
    weights[TOP:] = 1
    return drawn(labels, weights)


def lp_1st_with_prior(labels, eps=0.1, prior_eps=0.05, others=5000):
    """jinpz: whether noisy counts and release all speak for class 0 of two; 10,000 others."""
    noise = STREAM.geometric(1 - np.exp(-prior_eps / 2), (2, len(labels), 2)) - 1
    counts = others + np.eye(2)[labels] + noise[0] - noise[1]
    keep = np.exp(eps) / (np.exp(eps) + 1)
    single = counts.max(1) / counts.sum(1) >= keep  # k = 1: the most likely class leaves
    released = np.where(STREAM.random(len(labels)) < keep, labels, 1 - labels)
    released = np.where(single, counts.argmax(1), released)
    return ((counts[:, 0] > others) & (counts[:, 1] <= others) & (released == 0)).astype(int)


lp_1st_less_prior = partial(lp_1st_with_prior, eps=0.05)


def block_rr(labels, one=6, two=4, favoured=2):
    """BlockRR with a majority of 6 classes, which come first, a minority of 4, and l = 2."""
    bottom = (E + one - 1) * (E + two - 1) - (one - favoured) * two
    beta = (E - 1 + favoured * two / CLASSES) / bottom
    gamma = (E + favoured - 1 - favoured * (E + one - 1) / CLASSES) / bottom
    weights = np.tile(np.where(np.arange(CLASSES) < one, beta, gamma), (CLASSES, 1))
    weights[one:, :favoured] = 1 / CLASSES
    return drawn(labels, weights * RR)


def alibi(labels):
    """ALIBI: one-hot labels with Laplace noise, the difference of two exponentials."""
    scale, shape = 2 / EPS, (len(labels), CLASSES)
    noise = STREAM.exponential(scale, shape) - STREAM.exponential(scale, shape)
    return np.eye(CLASSES)[labels] + noise


def largest_of_noisy_one_hot(labels):
    """MindSpore: the place of the largest entry of eps * one-hot + noise of scale 1."""
    noise = STREAM.laplace(0, 1, (len(labels), CLASSES))
    return np.argmax(EPS * np.eye(CLASSES)[labels] + noise, axis=1)


def staircase(labels, fault=True):
    """Staircase noise of BlockRR and RPWithPrior; `outer` is the weight of the outer part."""
    gamma, count = 1 / (1 + np.exp(EPS / 2)), len(labels)
    step, uniform = STREAM.geometric(1 - 1 / E, count) - 1, STREAM.random(count)
    b = STREAM.binomial(1, gamma / (gamma + (1 - gamma) / E), count)
    outer = -2 * b + 1 if fault else 1 - b
    inside, outside = step + gamma * uniform, step + gamma + (1 - gamma) * uniform
    sign = 2 * STREAM.binomial(1, 0.5, count) - 1
    return labels + sign * ((1 - outer) * inside + outer * outside)


plain_staircase = partial(staircase, fault=False)


def prior_of_rp(labels, eps=2.0, fault=True):
    """RPWithPrior3: mean and std of the prior, whose last batch has one row."""
    clear = np.tile([0, 0.1, 0.2, 0.2, 0.3, 0.5, 0.8, 1, 0, 0.4], (len(labels), 1))
    clear[:, 8] = labels
    noisy = clear + STREAM.laplace(0, 3 / eps, clear.shape)
    used = (np.column_stack([clear, noisy[:, -1]]) if fault else noisy).clip(0, 1)
    return np.column_stack([used.mean(1), used.std(1, ddof=1)]).round(9)


noisy_prior_of_rp = partial(prior_of_rp, fault=False)


def end_of_bins(labels, top=None, reach=None):
    """GOPHER-LP: the upper end of the bins, for our value 0 or 2 among 20 others."""
    others = np.tile(np.linspace(-1, 1, 20), (2, 1))
    values = np.column_stack([others, [0.0, 2.0]])
    top, reach = top or values.max(1)[labels], reach or np.ptp(values, axis=1)[labels]
    scale = reach / values.shape[1] / 0.1 * np.ones(len(labels))
    mean = values.mean(1)[labels] + STREAM.laplace(0, scale / 0.1)
    var = values.var(1)[labels] + np.abs(STREAM.laplace(0, reach * scale / 0.9))
    return np.minimum(top, mean + 2.576 * np.sqrt(var))


end_of_public_bins = partial(end_of_bins, top=2.0, reach=3.0)


def noisy_votes(labels):
    """PATE-FM: three noisy counts of 19 fixed votes and ours; at delta = 1e-3 two counts cost 2.05.

    The accountant takes them for one count, 1.35.
    """
    return np.array([7.0, 7.0, 5.0]) + np.eye(3)[labels] + STREAM.normal(0, 2, (len(labels), 3))


def votes_above_threshold(labels):
    """PATE-FM: whether a count exceeds the threshold.

    A vote moves from one count to another, which pulls this in opposite directions: it changes less
    than by either move alone, so that the accountant's sensitivity of 1 is right.
    """
    return (noisy_votes(labels).max(1) > 12).astype(int)
