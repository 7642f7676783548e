"""How images are chosen, so that anyone can repeat the choice: the generator "lpplusplus-1".

**Numbers.** `stream(*names)` is numpy's PCG64, seeded through `SeedSequence` with the SHA-256 of "lpplusplus-1" and the
names, joined by null characters, read as one big-endian number. Only its raw 64-bit output is used, which numpy
promises to keep.

**Some images of a class.** Each image of the class, in order, gets the next number of the stream. The images with the
smallest numbers are chosen.

**Supports that differ.** Independent choices could give one support twice. Instead, all M possible supports are
numbered, and a permutation of the numbers (a Feistel network over SHAKE-256, keyed by the data set's name and the
shots) says which support a seed gets: the first M seeds get each support once. If M is above 2^64, only the first
classes, as many as it takes to reach 2^64 combinations, are chosen by number; the others are chosen by a stream.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

GENERATOR: Final = "lpplusplus-1"
ENOUGH = 2**64
"""Supports are numbered class by class until there are this many numbers; further classes are drawn."""
ROUNDS = 8
"""Rounds of the Feistel network."""

Positions: TypeAlias = NDArray[np.intp]


def stream(*names: str | int) -> np.random.PCG64:
    """Random 64-bit numbers that depend on the names and on nothing else.

    Examples
    --------
    >>> stream("dtd", "support", 4, 1).random_raw() == stream("dtd", "support", 4, 1).random_raw()
    True
    """
    digest = hashlib.sha256("\0".join([GENERATOR, *map(str, names)]).encode()).digest()
    return np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big")))


def some(rows: Positions, count: int, bits: np.random.PCG64) -> Positions:
    """`count` of `rows` (all, if there are no more), ascending."""
    order = np.argsort(bits.random_raw(len(rows)), kind="stable")
    return np.sort(rows[order[:count]])


def some_repeated(rows: Positions, count: int, bits: np.random.PCG64) -> Positions:
    """`count` of `rows` with replacement, ascending."""
    return np.sort(rows[(bits.random_raw(count) % np.uint64(len(rows))).astype(np.intp)])


def supports(classes: Sequence[Positions], shots: int, name: str, seed: int) -> list[Positions]:
    """`shots` rows of each class, or all of a class that has fewer; different for each seed below M."""
    ways = [math.comb(len(rows), shots) if len(rows) > shots else 1 for rows in classes]
    numbered, total = 0, 1
    while numbered < len(ways) and total < ENOUGH:
        total *= ways[numbered]
        numbered += 1
    number = shuffled(seed % total, total, f"{GENERATOR}\0{name}\0{shots}")
    bits = stream(name, "support", shots, seed)
    chosen = []
    for position, rows in enumerate(classes):
        if position < numbered:
            number, rank = divmod(number, ways[position])
            chosen.append(rows[combination(rank, len(rows), shots)])
        else:
            chosen.append(some(rows, shots, bits))
    return chosen


def combination(rank: int, n: int, k: int) -> Positions:
    """The subset of this rank among the subsets of k numbers below n, in lexicographic order; all n numbers if k ≥ n.

    Examples
    --------
    >>> [combination(rank, 4, 2).tolist() for rank in range(6)]
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    """
    found = []
    left = min(n, k)
    for number in range(n):
        if not left:
            break
        with_it = math.comb(n - number - 1, left - 1)
        if rank < with_it:
            found.append(number)
            left -= 1
        else:
            rank -= with_it
    return np.array(found, np.intp)


def shuffled(number: int, total: int, key: str) -> int:
    """The image of `number` under a permutation of 0 … total - 1 that depends on the key.

    A Feistel network permutes the numbers with an even number of bits. It is applied until the result is below `total`,
    which makes a permutation of the numbers below `total`.

    Examples
    --------
    >>> sorted(shuffled(number, 10, "a key") for number in range(10))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    half = max(1, -(-(total - 1).bit_length() // 2))
    low = (1 << half) - 1
    while True:
        left, right = number >> half, number & low
        for turn in range(ROUNDS):
            digest = hashlib.shake_256(f"{key}\0{turn}\0{right}".encode()).digest(-(-half // 8))
            left, right = right, left ^ (int.from_bytes(digest, "big") & low)
        number = left << half | right
        if number < total:
            return number
