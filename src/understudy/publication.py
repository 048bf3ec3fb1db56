"""How synthetic records are published: what every claim must say of it, and their codebook."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from understudy.models.contract import OutcomeModel, RowsModel
from understudy.survey.codebook import Codebook
from understudy.survey.draft import kind_of
from understudy.survey.published_type import types_not_declared
from understudy.survey.survey import Survey
from understudy.tables.cross_table import Categories

IN_ORDER = (
    "Records stand in the order of the confidential file, and that order is not covered: publish "
    "them in another one, unless it says nothing"
)
WITHOUT_WEIGHTS = (
    "Design weights were not used: the synthetic records stand for the file's records, each once"
)
MISSING_LEVEL = "A missing value is a level of its own, and is synthesized like the others"


@dataclass(frozen=True)
class Publication:
    """How the records will be published, as far as the claim must speak of it.

    `in_order`: in the order of the confidential file. `where`: only these records were used.
    `given_drawn`: the columns that the model is given are themselves drawn before publication.
    """

    in_order: bool = True
    where: str | None = None
    given_drawn: bool = False


def outcome_conditions(
    survey: Survey, model: OutcomeModel, missing: str, publication: Publication
) -> tuple[str, ...]:
    unit = survey.codebook.unit_column
    drawn = [*model.sensitive, unit] if hides_unit(survey) else model.sensitive
    kept = [name for name in survey.columns if name not in drawn]
    conditions = [model.units(survey.codebook), *_types(survey, model.sensitive)]
    if unit is not None:
        conditions.append(
            f"Which records belong to one `{unit}` does not depend on confidential values; their "
            "contributions were added up before they were limited"
        )
    if publication.in_order:
        conditions.append(IN_ORDER)
    if kept and not publication.given_drawn:
        conditions.append(
            f"The number of records and the columns {', '.join(kept)} are public: published as "
            "they are, and not covered"
        )
    else:
        conditions.append("The number of records is public")
    if missing == "drop":
        conditions.append(
            "Records without a sensitive value were left out first; which and how many they were "
            "is not covered"
        )
    if missing == "model":
        conditions.append(
            "A missing sensitive value counts as blank, and is synthesized like any other"
        )
    return (*conditions, *_restriction(publication))


def hides_unit(survey: Survey) -> bool:
    """Whether there is a unit column that the synthetic files go without: it identifies units,
    and stays only where the design needs it."""
    unit = survey.codebook.unit_column
    return unit is not None and unit not in survey.design.columns(survey.columns)


def rows_conditions(survey: Survey, model: RowsModel, publication: Publication) -> tuple[str, ...]:
    conditions = _types(survey, model.columns)
    if survey.design.weight is not None:
        conditions.append(WITHOUT_WEIGHTS)
    if model.missing == "level":
        conditions.append(MISSING_LEVEL)
    return (*conditions, *_restriction(publication))


def file_conditions(publication: Publication) -> tuple[str, ...]:
    return _restriction(publication)


def _types(survey: Survey, columns: tuple[str, ...]) -> list[str]:
    unclear = types_not_declared(survey, columns)
    if not unclear:
        return []
    return [
        f"The types of {', '.join(unclear)} (whole numbers, decimals or text) are those of the "
        "file, not declared ones, and are not covered"
    ]


def _restriction(publication: Publication) -> tuple[str, ...]:
    if publication.where is None:
        return ()
    return (
        f"Only records with `{publication.where}` were used; which and how many they were is not "
        "covered",
    )


def without_drafted(codebook: Codebook, columns: Iterable[str]) -> Codebook:
    """The codebook without facts of these columns that were drafted from the records' values."""
    for name in columns:
        if name in codebook:
            codebook = codebook.with_column(codebook[name].without_drafted())
    return codebook


def published_codebook(dataset: Survey, synthesized: Iterable[str]) -> Codebook:
    """The codebook of a published file. Of a synthesized column that is not declared, the type is
    that of the file (the claim says so) and nothing else is told."""
    codebook = without_drafted(dataset.codebook, dataset.codebook.columns)
    schema = dataset.raw.schema()
    for name in synthesized:
        if name not in codebook:
            continue
        column = codebook[name]
        if "type" in column.drafted:
            column = replace(column, type=kind_of(schema[name]))
        if "role" in column.drafted:
            column = replace(column, role="sensitive")
        codebook = codebook.with_column(replace(column, drafted=frozenset()))
    return codebook


def rows_codebook(codebook: Codebook, categories: Categories) -> Codebook:
    """The codebook of the synthetic file: no fact that was only drafted from the records."""
    names = list(categories.columns)
    kept = without_drafted(codebook.only(names), names)
    ordered = {name: kept[name] for name in names}
    return replace(kept.without_unit(), columns=ordered, population_by={})
