"""WholeFile: every column of a file, drawn together from chosen low-order tables (methods §10).

Categories, numbers, amounts with zeros and topcodes, dates, missing codes and weights are counted
in the cells that the codebook declares (survey/cells.py). Which tables are counted, and with what
noise, is the mechanism's affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from understudy.errors import Refused, UnknownName
from understudy.models.contract import FileModel
from understudy.survey.cells import ColumnCells, cells_of, with_known_strata
from understudy.survey.codebook import Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey

NOT_DRAWN = ("unit", "psu", "fpc", "replicate")  # roles: identifiers, and what belongs to clusters
MAY_BE_KEPT = ("public", "stratum")


@dataclass(frozen=True)
class WholeFile(FileModel):
    """All `columns` (by default every column of the codebook that is not an identifier) are drawn,
    but for those in `keep`: public columns that stay as they are, row by row.

    `size` is the number of synthetic records: that of the file when None, which is then public; a
    noisy one with "noisy".
    """

    synthesizes = "file"

    columns: Annotated[
        tuple[str, ...] | None,
        "The columns of the synthetic files; by default all but identifiers.",
    ] = None
    keep: Annotated[
        tuple[str, ...] | None, "Public columns among them that stay as they are, row by row."
    ] = None
    size: Annotated[
        int | Literal["noisy"] | None,
        "Records in each synthetic file; the file's own number by default, which is then public.",
    ] = None

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        size: int | Literal["noisy"] | None = None,
    ) -> None:
        for name, names in (("columns", columns), ("keep", keep)):
            if isinstance(names, str) or (names is not None and not names):
                raise Refused(f'`{name}` must be a list of columns, such as ["age", "income"].')
            if names is not None and len(set(names)) < len(names):
                raise Refused(f"A column in `{name}` is named twice; name each once.")
            object.__setattr__(self, name, None if names is None else tuple(names))
        whole = isinstance(size, int) and not isinstance(size, bool) and size >= 1
        if size not in (None, "noisy") and not whole:
            raise Refused('`size` must be a whole number of records, at least 1, or "noisy".')
        if size is not None and keep is not None:
            raise Refused(
                "Kept columns fix the records, so `size` cannot be chosen; leave one of them out."
            )
        object.__setattr__(self, "size", size)

    def for_survey(self, survey: Survey) -> Self:
        """The model with its columns by name, checked against the codebook."""
        columns = self.columns
        if columns is None:
            columns = tuple(name for name in survey.columns if _drawn_by_default(survey, name))
        for name in (*columns, *(self.keep or ())):
            if name not in survey.columns:
                raise UnknownName("column", name, survey.columns)
            if name not in survey.codebook:
                raise Refused(f"The codebook does not know `{name}`; declare it, or leave it out.")
            if survey.codebook[name].role in ("unit", "replicate"):
                raise Refused(
                    f"`{name}` identifies units or belongs to replicates; it is not drawn."
                )
            if survey.codebook[name].derived:
                raise Refused(
                    f"`{name}` is computed from other columns and follows where these are; do not "
                    "name it."
                )
        for name in self.keep or ():
            if survey.codebook[name].role not in MAY_BE_KEPT:
                raise Refused(
                    f"`{name}` is {survey.codebook[name].role}, not public; only columns of the "
                    "roles public and stratum may be kept as they are."
                )
        columns = (*columns, *(name for name in self.keep or () if name not in columns))
        if not [name for name in columns if name not in (self.keep or ())]:
            raise Refused("Every column is kept as it is; leave one out of `keep`.")
        return replace(self, columns=columns)

    def cells(self, survey: Survey) -> tuple[ColumnCells, ...]:
        """The cells of every column."""
        cells = tuple(cells_of(_column(survey, name)) for name in self.columns or ())
        for column in cells:
            if not column.levels and _holds_words(survey, column):
                kind = "a date" if column.column.type == "date" else "a number"
                raise Refused(
                    f"The codebook calls `{column.name}` {kind}, and the file holds text that is "
                    "not one; write dates as 2025-12-31 and numbers as 1234.5, declare text as a "
                    "missing code, or declare levels."
                )
        return cells

    def check_declared(self, survey: Survey) -> None:
        """Refused where a cell rests on something that was drafted from the records."""
        drafted = [
            (name, fact)
            for name in self.columns or ()
            for fact in survey.codebook[name].drafted_cells
        ]
        if not drafted:
            return
        name, fact = drafted[0]
        columns = len({name for name, _ in drafted})
        more = "" if columns == 1 else f" (the first of {len(drafted)} facts in {columns} columns)"
        raise Refused(
            f"A formal claim rests on `{name}.{fact}`{more}, which is not declared; declare it in "
            "the codebook from what is public, and take it off the column's `drafted` list."
        )

    def published_design(self, design: Design) -> Design:
        """The weight is a column like others, and strata stay; clusters are not drawn. Noise may
        leave a stratum one record, which must not make the files useless."""
        names = self.columns
        weight = design.weight if names is None or design.weight in names else None
        strata = design.strata if names is None or design.strata in names else None
        lonely = design.lonely_psu
        if lonely == "fail" and strata is not None:
            lonely = "adjust"
        return Design(weight=weight, strata=strata, lonely_psu=lonely)


def _holds_words(survey: Survey, column: ColumnCells) -> bool:
    """Whether the file has text where a number or a date should be."""
    values = survey.raw[column.name]
    if not values.type().is_string() or column.column.type == "date":
        return bool(values.type().is_string())
    wrong = values.notnull() & values.try_cast("float64").isnull()
    return bool(survey.raw.aggregate(wrong=wrong.any()).to_pyarrow()["wrong"][0].as_py())


def _drawn_by_default(survey: Survey, name: str) -> bool:
    if name not in survey.codebook:
        return False
    column = survey.codebook[name]
    identifies = column.type == "text" and column.levels is None
    return not (column.role in NOT_DRAWN or identifies or column.derived)


def _column(survey: Survey, name: str) -> Column:
    column = with_known_strata(survey.codebook, survey.design)[name]
    is_weight: Any = name == survey.design.weight
    return replace(column, role="weight") if is_weight else column
