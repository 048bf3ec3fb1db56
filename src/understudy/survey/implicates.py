"""A file with implicates: every record m times, with its missing answers imputed anew each time.

A column numbers the implicates, as in the Survey of Consumer Finances; plausible values (PISA) are
written one under another first. Each implicate is a survey of the whole population with the file's
design: its weights alone add up to the population.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.errors import Refused, UnknownName
from understudy.survey.survey import Survey

__public__ = ("implicates",)

MOST = 100  # implicates


class Implicates(list[Survey]):
    """The implicates of one survey: tables and regressions combine them by Rubin's rule."""

    kind = "imputed"


def implicates(survey: Survey, column: str) -> Implicates:
    """The implicates that `column` numbers, without this column: `us.tabulate` and `us.regress`
    combine them by Rubin's rule."""
    if column not in survey.columns:
        raise UnknownName("column of implicates", column, survey.columns)
    if column in survey.design.columns(survey.columns):
        raise Refused(f"`{column}` numbers the implicates; the design cannot name it too.")
    counts = survey.raw.group_by(column).aggregate(records=survey.raw.count()).order_by(column)
    frame = counts.limit(MOST + 1).to_polars()
    if frame[column].null_count():
        raise Refused(f"Some records have no implicate in `{column}`; number all of them.")
    if not 2 <= frame.height <= MOST:
        raise Refused(
            f"`{column}` does not number implicates: it has one value, or more than {MOST}; name "
            "the column that does."
        )
    rest = [name for name in survey.columns if name != column]
    codebook = survey.declared.only(rest) if survey.declared.columns else None
    made = Implicates()
    for number in frame[column]:
        records = survey.raw.filter(survey.raw[column] == number).select(rest)
        made.append(Survey(records, survey.design, codebook))
    check_same_records(made)
    return made


def check_same_records(made: Iterable[Survey]) -> None:
    """Refused where implicates are not of the same records, as far as can be seen: by their number,
    and by the unit's id where the codebook has one."""
    first, *others = made
    unit = first.declared.unit_column
    names = [] if unit is None else [unit]
    for each in others:
        if each.n != first.n:
            raise Refused(
                "The implicates do not have the same number of records: some are missing, or "
                "chosen by an imputed value; choose records by columns that were not imputed."
            )
        if names and not each.frame(names).equals(first.frame(names)):
            raise Refused(
                f"The implicates list `{unit}` in different orders; sort the file by it first."
            )
