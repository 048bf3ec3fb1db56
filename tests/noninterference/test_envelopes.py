"""Threat 31: public bytes that are not the mechanism's output.

For every mechanism, model and file format: neighbouring files whose mechanism gives the same output
hand out the same bytes, and the envelope has the fields that docs/proofs/published-bytes.md lists.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from cases import CASES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from neighbours import changed, extreme, lacking, neighbours
from releases import Case, base, base_of, handed

from understudy.claim import Claim
from understudy.survey.file_format import formats

PAGE = Path(__file__).parents[2] / "docs" / "proofs" / "published-bytes.md"
SUFFIXES = [known.written[0] for known in formats() if known.written]
FEW = settings(max_examples=8, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def differing(case: Case, frame: pl.DataFrame, suffix: str = ".parquet") -> list[str]:
    """The handed-out files that are not the same for the base file and for this one."""
    ours, theirs = dict(base_of(case, suffix)), handed(case, frame, suffix)
    assert set(ours) == set(theirs)
    if case.figures:  # asymptotic: the figure is of this database, and the claim says so
        for files in (ours, theirs):
            claim = json.loads(files.pop("envelope/claim.json"))
            assert claim["kind"] == "asymptotic"
    return [name for name, content in ours.items() if content != theirs[name]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_extreme_neighbour_hands_out_the_same_bytes(case: Case) -> None:
    assert differing(case, extreme(case)) == []


@pytest.mark.parametrize("case", [case for case in CASES if case.missing], ids=str)
def test_a_missing_value_hands_out_the_same_bytes(case: Case) -> None:
    assert differing(case, lacking(case)) == []


@pytest.mark.parametrize("case", [CASES[-3], CASES[-2]], ids=str)
@FEW
@given(data=st.data())
def test_neighbours_hand_out_the_same_bytes(case: Case, data: st.DataObject) -> None:
    assert differing(case, data.draw(neighbours(case))) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
@MANY
@given(data=st.data())
def test_neighbours_at_random_hand_out_the_same_bytes(case: Case, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(SUFFIXES))
    assert differing(case, data.draw(neighbours(case)), suffix) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_neighbours_in_every_file_format_hand_out_the_same_bytes(suffix: str) -> None:
    """A whole number that becomes a decimal, where the format tells them apart."""
    case = next(case for case in CASES if (case.model, case.mechanism) == ("Beta", "Censored"))
    frame = changed(base(), 5, "share", 50.5)[::-1]
    assert differing(case, frame, suffix) == []


def test_the_envelope_has_the_fields_that_the_proof_covers() -> None:
    """Files and fields are those of the page's table, for every case."""
    listed = set(re.findall(r"^\| `((?:envelope|declared)/[^`]+|seed)` \|", PAGE.read_text(), re.M))
    met = set()
    for case in CASES:
        files = base_of(case, ".parquet")
        met |= {re.sub(r"/\d+\.parquet", "/N.parquet", name) for name in files}
        Claim.from_json(files["envelope/claim.json"].decode())
    assert met == listed
