"""Mistakes that were made once, planted again: the harness must find every one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import CASES
from neighbours import extreme
from releases import Case, base, handed

from understudy.envelope import Envelope, open_envelope
from understudy.errors import Refused
from understudy.release import envelope as hand_over
from understudy.release import inside
from understudy.survey.draft import draft_codebook
from understudy.tables.cross_table import CrossTable

Patch = pytest.MonkeyPatch


def case_of(name: str, part: str = "") -> Case:
    return next(c for c in CASES if str(c) == name and part in c.privacy)


def types_off_the_values(patch: Patch) -> None:
    """Mistake 3: one record 50 -> 50.5 makes decimals of a published column."""
    patch.setattr(
        "understudy.publication.published_dtype",
        lambda survey, name: survey.raw.select(name).schema().to_polars()[name],
    )


def codes_among_levels_that_occur(patch: Patch) -> None:
    """Mistake 2: a level that one record has shifts the codes of all cells."""
    patch.setattr(CrossTable, "shown_only", lambda table, _: table)


def rows_as_in_the_file(patch: Patch) -> None:
    patch.setattr(inside, "_public_order", lambda *_: None)


def facts_drafted_from_the_records(patch: Patch) -> None:
    """Mistake 3, the codebook: bounds and types as the confidential values suggest them."""
    declared = hand_over._declared

    def drafting(result: Any, inside: Any, public: Any) -> Any:
        made = declared(result, inside, public)
        object.__setattr__(made, "codebook", draft_codebook(inside.narrowed.raw, made.design))
        return made

    patch.setattr(hand_over, "_declared", drafting)


MISTAKES: list[tuple[Callable[[Patch], None], Case]] = [
    (types_off_the_values, case_of("BetaRegression-Censored")),
    (codes_among_levels_that_occur, case_of("Multinomial-Modips", "threshold")),
    (rows_as_in_the_file, case_of("BetaRegression-Censored")),
    (facts_drafted_from_the_records, case_of("BetaRegression-Censored")),
]


@pytest.mark.parametrize(("plant", "case"), MISTAKES, ids=[plant.__name__ for plant, _ in MISTAKES])
def test_a_planted_mistake_is_found(plant: Callable[[Patch], None], case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert handed(case, base()) != handed(case, extreme(case))


def test_a_field_that_no_proof_covers_is_refused_outside(tmp_path: Path) -> None:
    """A figure of the records that was put into the envelope does not get out."""
    case = case_of("BetaRegression-Censored")
    (tmp_path / "envelope").mkdir()
    for name, content in handed(case, base()).items():
        if name.startswith("envelope/"):
            (tmp_path / name).write_bytes(content)
    assert isinstance(open_envelope(tmp_path / "envelope"), Envelope)
    (tmp_path / "envelope" / "censored.json").write_text(json.dumps({"censored": 17}))
    with pytest.raises(Refused, match="something that no claim covers"):
        open_envelope(tmp_path / "envelope")
