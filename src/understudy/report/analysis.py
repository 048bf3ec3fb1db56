"""How to analyse a release: programs in Python and in R that an analyst can copy and run.

Both give the table of the release (without margins) and a regression where there is a number to
explain. They differ in that Python knows the combining rule from the release, and R spells it out.
"""

from __future__ import annotations

import re

from understudy.report.analysis_r import r_program
from understudy.report.public_facts import PublicFacts
from understudy.report.templates import rendered
from understudy.survey.codebook import Column


def python_example(facts: PublicFacts) -> str:
    """Python that runs in the folder of the release."""
    formula = ""
    model = regression(facts)
    if model is not None:
        outcome, predictors = model
        name = _formula_name(outcome)
        left = f"log({name})" if outcome.transform == "log" else name
        formula = f"{left} ~ {' + '.join(map(_term, predictors))}"
    return rendered(
        "analysis.py.j2",
        corrected=facts.corrected.get("statistics", ()),
        statistics=[statistic.text for statistic in facts.statistics if not statistic.is_own],
        by=list(facts.by),
        formula=formula,
    )


def r_example(facts: PublicFacts, files: int) -> str:
    """R with the survey package that runs in the folder of a release of so many files."""
    return r_program(facts, files, regression(facts))


def regression(facts: PublicFacts) -> tuple[Column, list[Column]] | None:
    """A number that was synthesized and up to two columns to explain it; None without any."""
    design = {
        facts.design.weight, facts.design.variance_weight, facts.design.psu, facts.design.fpc
    }  # fmt: skip
    numbers = [
        facts.codebook[name]
        for name in facts.synthesized
        if name in facts.codebook
        and name not in design
        and facts.codebook[name].type in ("continuous", "integer")
    ]
    if not numbers:
        return None
    outcome = numbers[0]
    others = [
        column
        for column in facts.codebook
        if column.name != outcome.name
        and column.name not in design
        and column.role in ("public", "stratum", "sensitive")
        and column.type in ("categorical", "continuous", "integer")
        and (column.levels is None or len(column.levels) <= 12)
    ]
    # by-variables first: the table has shown that they matter to the publisher
    others.sort(key=lambda column: column.name not in facts.by)
    return (outcome, others[:2]) if others else None


def _term(column: Column) -> str:
    name = _formula_name(column)
    return f"C({name})" if column.type == "categorical" else name


def _formula_name(column: Column) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", column.name)
    return column.name if plain else f"`{column.name}`"
