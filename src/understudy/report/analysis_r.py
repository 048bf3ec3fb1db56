"""The R program of a release: survey package, one design per file, the combining rule in full.

The rule is that of `tables/combine.py`; statistics are those of `tabulate`, spelled as R survey
does (svytotal, svymean, svyratio, svyquantile within svyby). The text is that of
`templates/analysis.R.j2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.report.public_facts import PublicFacts
from understudy.report.templates import rendered
from understudy.survey.codebook import Column
from understudy.survey.design import Design
from understudy.survey.file_format import Format
from understudy.tables.statistic import Statistic
from understudy.tables.variance_factor import FITTED, VarianceFactor, variance_factor


def r_program(
    facts: PublicFacts, files: int, regression: tuple[Column, list[Column]] | None
) -> str:
    """The whole program."""
    design, format = facts.design, read_in_r(facts)
    replicates = design.replicates if design.weight is not None else None
    outcome, predictors = regression or (None, [])
    numbered = list(enumerate(facts.statistics, start=1))
    sizes = {} if design.replicates else facts.codebook.population_by.get(design.strata or "", {})
    return rendered(
        "analysis.R.j2",
        corrected=facts.corrected.get("statistics", ()),
        design=design,
        stages=_stages(design),
        calibrated=(design.calibrated or "").replace("C(", "factor("),
        replicates=replicates,
        format=format,
        codebook=list(facts.codebook),
        shares=[(k, statistic.r_column(k)) for k, statistic in numbered if statistic.r_column(k)],
        calls=[
            (statistic.text, statistic.r_call(k), _factor(facts, statistic))
            for k, statistic in numbered
            if statistic.r_call(k)
        ],
        plain=VarianceFactor(),
        fit_df=FITTED,
        slope=None if outcome is None else _slope_factor(facts, outcome, predictors),
        sums=[statistic.text for statistic in facts.statistics if statistic.adds_up],
        kinds={s.text: s.intervals[0] for s in facts.statistics if s.intervals[0] != "t"},
        grouped=bool(facts.by),
        by=list(facts.by) or ["All"],
        files=format.released_files(files),
        sizes=sizes,
        outcome=outcome,
        predictors=predictors,
    )


def _stages(design: Design) -> dict[str, Sequence[Any]]:
    """What R survey reads stage by stage, and the columns that a unit of a later one lies in."""
    strata = [design.strata, *(stage.strata for stage in design.stages)]
    upper = [name for name in (design.strata, design.psu) if name is not None]
    above = []
    for stage in design.stages:
        above.append([*upper, *([stage.strata] if stage.strata else [])])
        upper = [*above[-1], stage.unit]
    return {
        "units": [design.psu, *(stage.unit for stage in design.stages)],
        "strata": [name or "one" for name in strata]
        if any(strata[1:])
        else [*filter(None, strata)],
        "fpc": [design.fpc, *(stage.fpc for stage in design.stages)],
        "above": above,
    }


def _factor(facts: PublicFacts, statistic: Statistic) -> VarianceFactor:
    """What a sampling variance is multiplied by (tables/variance_factor.py)."""
    counts, adds_up = statistic.of_counts, statistic.adds_up
    about = (facts.by, statistic.columns)
    return variance_factor(facts.codebook, facts.design, *about, None, counts, adds_up)


def _slope_factor(
    facts: PublicFacts, outcome: Column, predictors: Sequence[Column]
) -> VarianceFactor:
    about = ([column.name for column in predictors], [outcome.name])
    return variance_factor(facts.codebook, facts.design, *about, None, False, False)


def read_in_r(facts: PublicFacts) -> Format:
    """The format that R reads without a package, or the first one that was asked for."""
    readable = [
        file_format for file_format in (*facts.formats[1:], facts.formats[0]) if file_format.r_reads
    ]
    return min(readable, key=lambda file_format: file_format.r_package != "")
