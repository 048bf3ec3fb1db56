"""Secret chance: where the random numbers of a synthesis come from, and what its claim says of it.

A draw is a function of the data and of its seed. Whoever can guess the seed can try values for a
record and see which of them gives the published draw: a claim holds only while the seed is
secret. So it is drawn from the operating system; a seed that the caller passes must be at least
16 random bytes, and any other one, a whole number for instance, makes a result for studies.

Every use has its own random numbers, by hashing the secret with a label (BLAKE2b): from the
numbers of one use nothing follows about those of another.
"""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from understudy.errors import Refused

Source = Literal["system", "caller", "studies"]
Seed = int | bytes | None  # what a caller may pass

BYTES = 16  # of a seed that nobody can guess
VARIED = 8  # different values, and different steps, that so many random bytes have all but surely
SIZE = 32

_SAID = {
    "system": "The seed of the random numbers was drawn from the operating system and is kept "
    "secret",
    "caller": "The random numbers follow from a seed that the data holder passed: the claim holds "
    "only while that seed is secret",
    "studies": "Made for studies, not for publication: its seed is not at least 16 random bytes, "
    "so a reader could guess it and then test guesses about a record",
}


@dataclass(frozen=True)
class Chance:
    """A secret, and where it comes from."""

    secret: bytes = field(repr=False)
    source: Source

    @property
    def for_studies(self) -> bool:
        """Whether the seed could be guessed: nothing made with it is published."""
        return self.source == "studies"

    @property
    def condition(self) -> str:
        """The sentence of the claim."""
        return _SAID[self.source]

    def of(self, label: str) -> Chance:
        """Chance of its own for one use."""
        return Chance(self.random_bytes(label, SIZE), self.source)

    def random_bytes(self, label: str, size: int) -> bytes:
        """The bytes that belong to one use; other labels and sizes give unrelated ones."""
        return blake2b(label.encode(), digest_size=size, key=self.secret).digest()

    def generator(self, label: str) -> np.random.Generator:
        """NumPy's generator for one use."""
        return np.random.default_rng(int.from_bytes(self.random_bytes(label, SIZE)))


def chance_of(seed: Seed | Chance) -> Chance:
    """What a seed stands for; None draws one from the operating system."""
    if isinstance(seed, Chance):
        return seed
    if seed is None:
        return Chance(secrets.token_bytes(SIZE), "system")
    if isinstance(seed, bytes):
        source: Source = "caller" if _looks_random(seed) else "studies"
        return Chance(blake2b(b"bytes" + seed, digest_size=SIZE).digest(), source)
    if _whole(seed) and 0 <= seed < 2**63:
        return Chance(blake2b(b"whole" + seed.to_bytes(8), digest_size=SIZE).digest(), "studies")
    raise Refused(
        "`seed` must be left out, or be at least 16 random bytes (secrets.token_bytes(16)), or, "
        "for studies, a whole number from 0 to 2^63 - 1."
    )


def _looks_random(seed: bytes) -> bool:
    """Whether bytes could be random ones: long, varied, without a pattern, and not a text.

    Random bytes fail this about once in eight million times (all of 16 printable).
    """
    steps = {(b - a) % 256 for a, b in itertools.pairwise(seed)}
    printable = all(32 <= byte < 127 for byte in seed)
    return (
        len(seed) >= BYTES and len(set(seed)) >= VARIED and len(steps) >= VARIED and not printable
    )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
