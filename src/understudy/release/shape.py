"""What in a file's shape speaks against a model of an outcome: piles that a density cannot have.

For the steward's eyes (`--dry-run`): the shares are read off the confidential records.
"""

from __future__ import annotations

from typing import Any

import ibis.expr.types as ir

from understudy.models.contract import Model, OutcomeModel
from understudy.survey.draft_numbers import MANY_ZEROS, rounding_step, shapes, special_values
from understudy.survey.survey import Survey

HEAP = 0.05  # share of one value, with 10 times what a value has on average


def shape_notes(survey: Survey, model: Model) -> list[str]:
    """A sentence for each synthesized number with mass at a bound, zeros or heaps."""
    if not isinstance(model, OutcomeModel):
        return []
    table, shown = survey.table, model.for_survey(survey).shown_values()
    numbers = {
        name: table[name]
        for name in model.sensitive
        if table[name].type().is_numeric() and name != survey.design.weight
    }
    notes = []
    for name, shape in shapes(table, numbers).items() if numbers else ():
        known = shape["known"]
        if not known:
            continue
        parts = []
        piles = special_values(shape)
        column = survey.codebook.columns.get(name)
        if shape["zeros"] > MANY_ZEROS * known and 0 not in shown:
            parts.append(f"{shape['zeros'] / known:.0%} of its values are 0")
        for bound, count in (("low", shape["at_low"]), ("high", shape["at_high"])):
            if shape[bound] in piles and shape[bound] not in (0, *shown):
                words = "smallest" if bound == "low" else "largest"
                parts.append(f"{count / known:.0%} are on the {words}, {shape[bound]:,.10g}")
        common, count = _commonest(table, numbers[name])
        alone = count > max(HEAP * known, 10 * known / max(shape["different"], 1))
        if alone and common not in (0, *piles, *shown):
            parts.append(f"{count / known:.0%} are {common:,.10g}")
        step = rounding_step(shape)
        if step is not None and step > 1 and not (column and column.declared("rounding")):
            parts.append(f"most are multiples of {step:g}")
        if parts:
            notes.append(
                f"`{name}`: {', '.join(parts)}. {type(model).__name__} draws from a smooth law and "
                "will not show that; WholeFile does."
            )
    return notes


def _commonest(table: ir.Table, values: Any) -> tuple[Any, int]:
    """The value that most records have, and how many they are."""
    known = table.select(value=values).drop_null()
    grouped = known.group_by("value").aggregate(records=known.count())
    row = grouped.order_by([grouped["records"].desc(), "value"]).limit(1).to_polars().row(0)
    return row[0], int(row[1])
