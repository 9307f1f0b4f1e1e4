"""Leaks that a look at many rows of one large call never shows."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from labeldp.audit.same_noise import same_noise
from labeldp.audit.verify import verify

K = 4


class Randomised:
    """Randomised response at eps=0.9, with what a fault changes in its outputs."""

    def __init__(self, fault: Callable[..., np.ndarray]) -> None:
        self.fault, self.stream, self.calls, self.given = fault, np.random.default_rng(), 0, 0
        self.before = np.zeros(0, dtype=np.int64)

    def response(self, labels, eps=0.9, stream=None):
        stream = stream or self.stream
        keep = stream.random(len(labels)) < np.exp(eps) / (np.exp(eps) + K - 1)
        return np.where(keep, labels, (labels + stream.integers(1, K, len(labels))) % K)

    def __call__(self, labels):
        self.calls += 1
        outputs = self.fault(self, self.response(labels), labels)
        self.before = labels.copy()
        return outputs


def rare_output(self, out, y):
    return np.where(self.stream.random(len(y)) < 5e-4, K + y, out)


def only_label_three(self, out, y):
    return np.where((y == 3) & (self.stream.random(len(y)) < 2e-3), 7, out)


def signed_tail(self, out, y):
    noise = self.stream.laplace(0, 3, len(y))
    return np.where(abs(noise) > 14, np.where(y % 2, abs(noise), -abs(noise)), noise)


def bounded_noise(self, out, y):
    noise = self.stream.laplace(0, 3.5, (20, len(y)))
    within = (abs(noise) < 10).argmax(0)
    return y + noise[within, np.arange(len(y))]


def first_rows(self, out, y):
    return np.r_[y[:50], out[50:]]


def last_row(self, out, y):
    return np.r_[out[:-1], y[-1:]]


def small_calls(self, out, y):
    return y if len(y) < 2000 else out


def single_labels(self, out, y):
    return y if len(y) == 1 else out


def later_calls(self, out, y):
    return y if self.calls > 40 else out


def one_class(self, out, y):
    return y if len(y) > 15 and (y == y[0]).all() else out


def large_calls_of_zeros(self, out, y):
    return out if len(y) < 1000 or y.any() else y


def after_a_million(self, out, y):
    self.given += len(y)
    return out if self.given < 10**6 else self.response(y, 2.0)


def call_before(self, out, y):
    size = min(100, len(out), len(self.before))
    return np.r_[self.before[:size], out[size:]]


def seeded_by_labels(self, out, y):
    digest = hashlib.sha256(y.tobytes()).digest()[:8]
    return self.response(y, stream=np.random.default_rng(int.from_bytes(digest, "big")))


def dtype_of_row_0(self, out, y):
    return out.astype(np.float32 if y[0] % 2 else np.float64)


def negative_zero(self, out, y):
    return np.where((out == 0) & (y == 1), -0.0, out)


def exact_counts(self, out, y):
    digits = [int(d) for count in np.bincount(y, minlength=K) for d in f"{count % 4096:012b}"]
    return np.r_[out[: -len(digits)], digits]


def parity_of_bits(self, out, y):
    bits = self.stream.integers(0, 2, (len(y), 3))
    flip = self.stream.random(len(y)) < 0.2
    return np.c_[bits[:, :2], (bits[:, 0] + bits[:, 1] + y + flip) % 2]


def low_decimals(self, out, y):
    return out + 1e-9 * self.response(y, 2.0)


FAULTS = [
    rare_output, only_label_three, signed_tail, bounded_noise, first_rows, last_row, small_calls,
    single_labels, later_calls, one_class, large_calls_of_zeros, after_a_million, call_before,
    seeded_by_labels, dtype_of_row_0, negative_zero, exact_counts, parity_of_bits, low_decimals,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_leak_is_found(fault):
    found = verify(Randomised(fault), K, 1.0, draws=300_000)
    assert not found.holds, found.lines()


# In calls of 4,096 labels it would show as an answer that is repeated, which ends the other looks.
@pytest.mark.parametrize("sizes", [[2**power for power in range(12)], [4096]])
def test_a_leak_at_one_size_of_calls_is_found(sizes):
    found = verify(
        Randomised(lambda self, out, y: y if len(y) in sizes else out), K, 1.0, draws=300_000
    )
    assert not found.holds, found.lines()
    if len(sizes) > 1:  # each by the calls of its own size
        assert {f"calls of {size:,} labels" for size in sizes} <= {e.where for e in found.leaks}


def test_the_same_without_a_fault_holds_and_says_what_it_would_have_seen():
    found = verify(Randomised(lambda self, out, y: out), K, 1.0, draws=300_000)
    assert found.holds and not found.leaks and 0.7 < found.bound <= 0.9
    assert found.draws > 10**6 and found.lines()[-1].startswith("verdict    no fault found")
    assert f"{found.draws:,} labels" in "".join(found.unseen)
    assert set(found.unseen) <= {line[11:] for line in found.lines()}
    # 2.5 times the stated rarity is found, and a tenth of it is not.
    for factor, is_found in ((2.5, True), (0.1, False)):

        def leaks(self, out, y, share=factor * found.rarity):
            return np.where(self.stream.random(len(y)) < share, K + y, out)

        assert verify(Randomised(leaks), K, 1.0, draws=300_000).holds != is_found


def of_one_label(label):
    stream = np.random.default_rng()
    if stream.random() < np.e / (np.e + K - 1):
        return label
    return (label + stream.integers(1, K)) % K


def test_a_function_of_one_label_is_called_label_by_label(monkeypatch):
    # It tossed one coin for thousands of labels, and an honest one was condemned.
    stream = np.random.default_rng()

    def one_coin(label):
        return label if stream.random() < 0.4 else (label + stream.integers(1, K)) % K

    monkeypatch.setattr("labeldp.audit.verify.PATIENCE", 0.0)
    for randomiser in (of_one_label, one_coin):
        found = verify(randomiser, K, 1.0, draws=20_000)
        assert found.holds and "label by label" in found.notes[0]


def test_a_generator_that_is_taken_must_be_used():
    def uses(labels, rng):
        return (labels + (rng.random(len(labels)) < 0.3)) % 2

    def ignores(labels, rng):
        return uses(labels, np.random.Generator(np.random.PCG64(1)))

    assert verify(uses, 2, 1.0, draws=20_000).holds
    assert verify(ignores, 2, 1.0, draws=20_000).noise == "repeated"


def kept_or_moved(labels, rng):
    moved = (labels + rng.integers(1, K, len(labels))) % K
    return np.where(rng.random(len(labels)) < 0.3, labels, moved)


def rare_branch(labels, rng):
    named = (rng.random(len(labels)) < 1e-9) & (labels == 2)
    return np.where(named, 7, kept_or_moved(labels, rng))


def of_another_row(labels, rng):
    out = kept_or_moved(labels, rng)
    return np.r_[(out[:1] + labels[-1:]) % K, out[1:]]


def counted_draws(labels, rng):
    rng.random((labels == 1).sum())
    return kept_or_moved(labels, rng)


def branch(labels, rng):
    noise = rng.random(len(labels))
    if labels[3] == 1:
        noise = 1 - noise
    return np.where(noise < 0.3, labels, (labels + rng.integers(1, K, len(labels))) % K)


def geometric(labels, rng):
    return labels + rng.geometric(0.3, len(labels)) - rng.geometric(0.3, len(labels))


@pytest.mark.parametrize(
    ("randomiser", "fault", "look"),
    [
        (kept_or_moved, "", ""),
        (geometric, "", ""),
        (rare_branch, "", "output 7 came from label 2 only"),
        (counted_draws, "", "how much random() draws depends on a label"),
        (branch, "output of another row", "runs for some labels only"),
        (of_another_row, "output of another row", ""),
    ],
)
def test_the_same_noise_on_neighbouring_labels_shows_every_branch(randomiser, fault, look):
    # No number of draws shows a branch of probability 1e-9.
    faults, looks = same_noise(randomiser, K, np.random.default_rng(0))
    assert len(faults) == bool(fault) and fault in "".join(faults)
    assert bool(looks) == bool(look) and look in "".join(looks)


def test_another_process_must_have_other_noise():
    def seeded(labels, is_of_one_label):
        return np.random.Generator(np.random.PCG64(1)).random(len(labels))

    def fresh(labels, is_of_one_label):
        return np.random.default_rng().random(len(labels))

    def randomiser(labels):
        return np.random.default_rng().random(len(labels))

    assert verify(randomiser, 2, 1.0, draws=20_000, elsewhere=fresh).holds
    found = verify(randomiser, 2, 1.0, draws=20_000, elsewhere=seeded)
    assert found.noise == "fixed" and not found.holds
