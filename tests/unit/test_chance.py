"""Threat 33: chance that could be guessed. Seeds are drawn, or the claim and the release say so."""

from __future__ import annotations

import itertools
import secrets
from pathlib import Path

import polars as pl
import pytest

import understudy as us
from understudy.chance import Chance, chance_of
from understudy.errors import Refused
from understudy.release.envelope import seal

SMALL = {"draws": 40, "chains": 2, "warmup": 100, "diagnostics": "report", "progress": False}
DISTINCT = bytes.fromhex("8f3a1c77e2059bd46610fe2948a7c35b")  # as from secrets.token_bytes(16)


def table() -> us.Survey:
    frame = pl.DataFrame({"g": ["a", "b"] * 20, "h": ["x", "x", "y", "y"] * 10})
    return us.Survey(frame)


def made(seed: int | bytes | None) -> us.Synthesis:
    return us.synthesize(table(), us.Multinomial(["g", "h"]), us.Unweighted(), 1, seed)


@pytest.mark.any_noise
def test_seeds_that_are_left_out_differ_between_calls() -> None:
    assert chance_of(None).secret != chance_of(None).secret
    assert chance_of(None).source == "system"
    assert len(chance_of(None).secret) == 32


@pytest.mark.any_noise
def test_only_random_bytes_of_length_count_as_a_secret() -> None:
    assert chance_of(DISTINCT).source == "caller"
    assert chance_of(secrets.token_bytes(16) + DISTINCT).source == "caller"
    guessable = [
        0,
        1,
        42,
        2**62 + 12345,
        DISTINCT[:15],
        b"",
        bytes(16),
        bytes(range(16)),
        bytes(range(0, 256, 7)),
        b"correct horse battery staple",
        b"20240504" * 4,
    ]
    for seed in guessable:
        assert chance_of(seed).source == "studies", seed
    for wrong in (-1, 2**63, 1.5, "1", True):
        with pytest.raises(Refused, match="`seed`"):
            chance_of(wrong)  # type: ignore[arg-type]


def test_the_claim_says_where_the_seed_comes_from() -> None:
    studied, passed = made(1), made(DISTINCT)
    assert studied.for_studies
    assert studied.claim.conditions[0].startswith("Made for studies, not for publication")
    assert not passed.for_studies
    assert passed.claim.conditions[-1].endswith("the claim holds only while that seed is secret")
    assert repr(DISTINCT) not in repr(passed)


def test_a_release_does_not_publish_what_was_made_for_studies(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="made for studies"):
        seal(made(1), None, tmp_path)  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())


def test_every_use_has_chance_of_its_own() -> None:
    """Neighbouring labels and seeds give unrelated bytes, and no secret shows in its uses."""
    chance = Chance(DISTINCT, "caller")
    uses = [chance.of(f"given {k}").secret for k in range(50)]
    uses += [Chance(DISTINCT[:-1] + bytes([k]), "caller").of("given 0").secret for k in range(50)]
    assert len(set(uses)) == 100
    differing = [
        bin(int.from_bytes(a) ^ int.from_bytes(b)).count("1") for a, b in itertools.pairwise(uses)
    ]
    assert all(80 < bits < 176 for bits in differing)  # of 256; fixed bytes, about 6 sd
    assert chance.of("given 1").source == "caller"
    assert "secret" not in repr(chance)
    assert chance.generator("a").integers(2**60) == chance.generator("a").integers(2**60)
    assert chance.generator("a").integers(2**60) != chance.generator("b").integers(2**60)
