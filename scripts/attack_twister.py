"""Undoes randomised response whose noise comes from a Mersenne Twister, from some known labels.

    python scripts/attack_twister.py [noise=both|seeded|secret] [labels=60000] [classes=10] [eps=1]

A label that was kept tells the leading bits of its uniform number, which are sums modulo 2 of the
19,937 bits of the generator's state. Some 20,300 such equations give the state, and it gives every
other label. `seeded`: torch's own generator, started from 256 secret bits; the attacker has no
seed. `secret`: `noise=secret`, where no state fits. Takes about a minute; `numba` must be there.
"""

import math
import sys
import time

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Generator, Tensor

from labeldp.mechanisms import RandomizedResponse
from labeldp.mechanisms.noise import Noise, SecretGenerator
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_choice
from labeldp_bench.cli.script import (
    command,
    finite_eps,
    integer,
    print_head,
    print_row,
    read_arguments,
)

WORDS, SHIFT, TWIST = 624, 397, 0x9908B0DF
UNKNOWN = 32 * WORDS
SPARE = 332
"""Equations beyond the unknown bits: so many that a wrong state fits with probability 2^-332."""
HIGHEST_BIT = 20
"""Of the first of two words, in a float64 uniform of torch: 53 of their 64 bits."""


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Attacks and prints; returns the exit status."""
    options = {"noise": "both", "labels": "60000", "classes": "10", "eps": "1"}
    own = read_arguments(arguments, options)
    noise = check_choice("noise", own["noise"], ("both", "seeded", "secret"))
    size = integer("labels", own["labels"], low=1)
    num_classes = integer("classes", own["classes"], low=2)
    mechanism = RandomizedResponse(finite_eps("eps", own["eps"]))
    known_bits(mechanism, num_classes)  # first: too large an eps gets one line alone
    print_head(("noise", "known labels", "equations", "seconds", "state", "other labels right"))
    for kind in ("seeded", "secret") if noise == "both" else (noise,):
        attack(kind, mechanism, size, num_classes)
    return 0


def attack(kind: str, mechanism: RandomizedResponse, size: int, num_classes: int) -> None:
    """Releases labels, attacks the release and prints a row of the table."""
    labels = torch.randint(num_classes, (size,), generator=Generator().manual_seed(1))
    noise: Noise = SecretGenerator()
    if kind == "seeded":
        noise = seeding.keyed_generator(np.random.default_rng().bytes(32), "attack")
    released = mechanism.release(labels, num_classes, noise)
    start = time.perf_counter()
    kept = (released == labels).numpy()
    number_of_bits = len(known_bits(mechanism, num_classes))
    needed = math.ceil((UNKNOWN + SPARE) / number_of_bits)
    known = int(np.searchsorted(np.cumsum(kept), needed)) + 1
    if known >= size:
        raise InputError(
            f"labels must be more: {kept.sum()} of {size} were kept, of {needed} needed"
        )
    rows, values = equations(kept[:known], mechanism, num_classes)
    state = solve(rows, values, UNKNOWN)
    seconds = time.perf_counter() - start
    guess = released  # what eps allows: the likeliest label
    if state is not None:
        guess = undone(mechanism, released, num_classes, state)
    right = float((guess[known:] == labels[known:]).double().mean())
    found = "none fits" if state is None else "found"
    shown = (f"{known:,}", f"{len(values):,}", f"{seconds:.1f}", found, f"{100 * right:.1f} %")
    print_row((kind, *shown))


def known_bits(mechanism: RandomizedResponse, num_classes: int) -> list[int]:
    """Returns the leading bits that all uniforms of kept labels have in common."""
    low, high, bits = (num_classes - 1) * mechanism.p_flip(num_classes), 1 - 2.0**-53, []
    for _ in range(HIGHEST_BIT + 1):
        low, high = 2 * low, 2 * high
        if int(low) != int(high):
            break
        bits.append(int(high))
        low, high = low - bits[-1], high - bits[-1]
    if not bits:
        raise InputError("eps must be lower: a kept label fixes no bit of its uniform number")
    return bits


def equations(
    kept: NDArray[np.bool_], mechanism: RandomizedResponse, num_classes: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Returns one row of coefficients, packed (E, UNKNOWN / 64), and one bit, for each equation."""
    bits = known_bits(mechanism, num_classes)
    places = HIGHEST_BIT - np.arange(len(bits))
    # A bit of an output is a sum of bits of one word of the state.
    sums = np.array([[tempered(1 << j) >> int(b) & 1 for j in range(32)] for b in places], np.uint8)
    rows = trace(2 * np.flatnonzero(kept), sums)
    return rows, np.tile(np.array(bits, np.uint8), int(kept.sum()))


def tempered(word: int) -> int:
    """Returns the output of the twister for a word of its state."""
    word ^= word >> 11
    word ^= word << 7 & 0x9D2C5680
    word ^= word << 15 & 0xEFC60000
    return word ^ word >> 18


def trace(outputs: NDArray[np.int64], sums: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Returns which bits of the first state add up to each wanted bit of each wanted output.

    Args:
        outputs: rising numbers of outputs, (n,).
        sums: which bits of a word of the state each wanted bit of its output adds up, (b, 32).

    Returns:
        Packed rows, (n b, UNKNOWN / 64), lowest bit first.
    """
    bits = np.packbits(np.eye(UNKNOWN, dtype=np.uint8), axis=1, bitorder="little")
    state = bits.view(np.uint64).reshape(WORDS, 32, -1)
    turned = [j for j in range(32) if TWIST >> j & 1]
    rows, drawn = [], 0
    for output in outputs:
        while drawn <= output:
            i = drawn % WORDS
            after = state[(i + 1) % WORDS]
            new = state[(i + SHIFT) % WORDS].copy()
            new[:30] ^= after[1:31]
            new[30] ^= state[i, 31]
            new[turned] ^= after[0]
            state[i] = new
            drawn += 1
        rows += [np.bitwise_xor.reduce(state[output % WORDS, each == 1]) for each in sums]
    return np.stack(rows)


def solve(rows: NDArray, values: NDArray, unknown: int) -> NDArray[np.uint8] | None:
    """Returns bits that meet all equations modulo 2, or None where there are none.

    Args:
        rows: uint64 (E, unknown / 64), packed coefficients, lowest bit first.
        values: uint8 (E,), 0 or 1.
        unknown: a multiple of 64. Bits that no equation fixes are 0.
    """
    last = np.asarray(values, np.uint64)[:, None]
    work = np.ascontiguousarray(np.concatenate([rows, last], 1))
    pivots = eliminate(work, unknown)
    rank = len(pivots)
    if work[rank:, -1].any():
        return None
    found = np.zeros(unknown, np.uint8)
    packed = np.zeros(unknown // 64, np.uint64)
    for row in range(rank - 1, -1, -1):
        parity = int(np.bitwise_count(work[row, :-1] & packed).sum()) & 1
        column = int(pivots[row])
        found[column] = int(work[row, -1]) ^ parity
        if found[column]:
            packed[column // 64] ^= np.uint64(1) << np.uint64(column % 64)
    return found


@njit(cache=True)
def eliminate(work: NDArray, unknown: int) -> NDArray:
    """Brings rows into echelon form in place, eight columns at a time; returns the pivot columns.

    Source: Albrecht, Bard, Hart (2010), "Algorithm 898", the method of the four Russians.
    """
    height, width = work.shape
    one = np.uint64(1)
    pivots = np.zeros(unknown, np.int64)
    table = np.zeros((256, width), np.uint64)
    rank = 0
    for block in range(0, unknown, 8):
        word, shift = block // 64, np.uint64(block % 64)
        first, taken = rank, 0
        for column in range(block, block + 8):
            bit = np.uint64(column % 64)
            for row in range(rank, height):
                # Rows below are not yet reduced by this block's pivots: do so in its word first.
                value = work[row, word]
                for k in range(taken):
                    if value >> np.uint64(pivots[first + k] % 64) & one:
                        value ^= work[first + k, word]
                if value >> bit & one:
                    for k in range(taken):
                        if work[row, word] >> np.uint64(pivots[first + k] % 64) & one:
                            work[row, word:] ^= work[first + k, word:]
                    for place in range(word, width):
                        kept = work[row, place]
                        work[row, place] = work[rank, place]
                        work[rank, place] = kept
                    for k in range(taken):  # so that each pivot's column is in no other pivot row
                        if work[first + k, word] >> bit & one:
                            work[first + k, word:] ^= work[rank, word:]
                    pivots[rank] = column
                    rank += 1
                    taken += 1
                    break
        if taken == 0:
            continue
        for code in range(256):
            table[code, word:] = np.uint64(0)
            for k in range(taken):
                if code >> (pivots[first + k] - block) & 1:
                    table[code, word:] ^= work[first + k, word:]
        mask = 0
        for k in range(taken):
            mask |= 1 << (pivots[first + k] - block)
        for row in range(rank, height):
            code = int(work[row, word] >> shift & np.uint64(255)) & mask
            if code:
                for place in range(word, width):
                    work[row, place] ^= table[code, place]
    return pivots[:rank]


def undone(
    mechanism: RandomizedResponse, released: Tensor, num_classes: int, state: NDArray[np.uint8]
) -> Tensor:
    """Returns the labels that the noise of a generator in this state gives back."""
    words = (state.reshape(WORDS, 32).astype(np.int64) << np.arange(32)).sum(1)
    noise = seeding.twister(words)
    total_flip = (num_classes - 1) * mechanism.p_flip(num_classes)
    uniform = torch.rand(released.shape, generator=noise, dtype=torch.float64)
    shift = torch.randint(1, num_classes, released.shape, generator=noise)
    return torch.where(uniform < total_flip, (released - shift) % num_classes, released)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
