"""Mistakes that were made once, planted again: the harness must find every one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cases import CASES
from neighbours import changed, extreme
from releases import CORRECT, SUMS, Case, base, base_of, handed

from understudy.corrected_table import CorrectionPlan, plan_corrections
from understudy.envelope import Envelope, NoisySums, open_envelope
from understudy.errors import Refused
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.design_effect import measured_clusters
from understudy.release import envelope as hand_over
from understudy.release import inside
from understudy.release.outside import HandedOut, correction_plan
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
    patch.setattr(inside, "public_order", lambda *_: None)


def facts_drafted_from_the_records(patch: Patch) -> None:
    """Mistake 3, the codebook: bounds and types as the confidential values suggest them."""
    declared = hand_over._declared

    def drafting(result: Any, inside: Any, public: Any) -> Any:
        made = declared(result, inside, public)
        object.__setattr__(made, "codebook", draft_codebook(inside.narrowed.raw, made.design))
        return made

    patch.setattr(hand_over, "_declared", drafting)


def corrections_planned_on_the_records(patch: Patch) -> None:
    """The clip, and all else of the plan, from the confidential file."""

    def planned(records: Any, handed: Path) -> None:
        facts = HandedOut.of(handed).facts
        plan = correction_plan(facts, [records])
        NoisySums(tuple(map(int, plan.noisy_sums(records))), plan.steps).write(handed / "envelope")

    patch.setattr("understudy.release.publish.correct", planned)


def centred_at_the_records(patch: Patch) -> None:
    """Estimates and derivatives from the confidential file, at a clip from the public ones."""
    sound = CorrectionPlan.noisy_sums

    def centred(plan: CorrectionPlan, records: Any) -> Any:
        asked = [s for s in plan.statistics if s.text in {text for _, text in plan.keys}]
        own = plan_corrections([records], asked, asked, plan.by, plan.corrections)
        assert plan.influence is not None
        assert own.influence is not None
        prepared = plan.influence.prepared
        at = dict(zip(own.keys, own.influence.prepared.released, strict=True))
        released = tuple(at.get(k, r) for k, r in zip(plan.keys, prepared.released, strict=True))
        influence = replace(plan.influence, prepared=replace(prepared, released=released))
        return sound(replace(plan, influence=influence), records)

    patch.setattr(CorrectionPlan, "noisy_sums", centred)


def exact_design_effects(patch: Patch) -> None:
    """Distances of clusters that go out without noise. They are made as large as those of the
    thousands of records that the fixed tables hold."""

    def measured(*asked: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                TableBudget, "noisy_numbers", lambda _, numbers, *__: (100 * numbers, 1.0)
            )
            return measured_clusters(*asked)

    patch.setattr("understudy.mechanisms.whole_file.measure.measured_clusters", measured)


MISTAKES: list[tuple[Callable[[Patch], None], Case]] = [
    (types_off_the_values, case_of("BetaRegression-Censored")),
    (codes_among_levels_that_occur, case_of("Multinomial-Modips", "threshold")),
    (rows_as_in_the_file, case_of("BetaRegression-Censored")),
    (facts_drafted_from_the_records, case_of("BetaRegression-Censored")),
    (corrections_planned_on_the_records, case_of("WholeFile-Marginals-corrected")),
    (exact_design_effects, case_of("WholeFile-Marginals-psu")),
]


@pytest.mark.parametrize(("plant", "case"), MISTAKES, ids=[plant.__name__ for plant, _ in MISTAKES])
def test_a_planted_mistake_is_found(plant: Callable[[Patch], None], case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert handed(case, base()) != handed(case, extreme(case))


CORRECTED = [case for case in CASES if case.corrects]


@pytest.mark.parametrize("case", CORRECTED, ids=str)
def test_a_record_moves_corrections_by_its_own_influence_and_no_more(case: Case) -> None:
    """By the same whole numbers whatever another record holds, and by what the noise is for."""
    first, second, allowed = moves(case)
    assert abs(first).sum() > 0
    assert abs(first).sum() <= allowed
    assert (first == second).all()
    with pytest.MonkeyPatch.context() as patch:
        centred_at_the_records(patch)
        first, second, _ = moves(case)
        assert (first != second).any()


def moves(case: Case) -> tuple[Any, Any, float]:
    """How the sums move with record 5, in two files that differ in record 21; their noise."""
    SUMS.clear()
    for frame in (base(), changed(base(), 21, "share", 33.25)):
        handed(case, frame)
        handed(case, changed(frame, 5, "share", 99.999))
    before, after, before_again, after_again = (sums for sums, _ in SUMS)
    return after - before, after_again - before_again, SUMS[0][1] * CORRECT


def test_a_field_that_no_proof_covers_is_refused_outside(tmp_path: Path) -> None:
    """A figure of the records that was put into the envelope does not get out."""
    case = case_of("BetaRegression-Censored")
    (tmp_path / "envelope").mkdir()
    for name, content in base_of(case, ".parquet").items():
        if name.startswith("envelope/"):
            (tmp_path / name).write_bytes(content)
    assert isinstance(open_envelope(tmp_path / "envelope"), Envelope)
    (tmp_path / "envelope" / "censored.json").write_text(json.dumps({"censored": 17}))
    with pytest.raises(Refused, match="something that no claim covers"):
        open_envelope(tmp_path / "envelope")
