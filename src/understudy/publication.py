"""How synthetic records are published: what every claim must say of it, what they are made of
beside the mechanism's output, and their codebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from understudy.chance import Chance
from understudy.claim import RECORD, Claim
from understudy.mechanisms.outputs.output import Ground, without_drafts
from understudy.survey.cells import with_known_strata
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.draft import kind_of
from understudy.survey.published_type import published_dtype, types_not_declared
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    from understudy.dp.account import PayingAccount
    from understudy.mechanisms.contract import Mechanism
    from understudy.models.contract import FileModel, OutcomeModel, RowsModel

IN_ORDER = (
    "Records stand in the order of the confidential file, and that order is not covered: publish "
    "them in another one, unless it says nothing"
)
WITHOUT_WEIGHTS = (
    "Design weights were not used: the synthetic records stand for the file's records, each once"
)
IMPUTED = (
    "The records are the first of several implicates: what was imputed for a record counts as its "
    "answer, what its answers did to values imputed for others is not covered, and intervals lack "
    "the variance between implicates"
)
MISSING_LEVEL = "A missing value is a level of its own, and is synthesized like the others"


@dataclass(frozen=True)
class Publication:
    """How the records will be published, as far as the claim must speak of it.

    `in_order`: in the order of the confidential file. `where`: only these records were used.
    `imputed`: they are one of several implicates.
    `given_drawn`: the columns that the model is given are themselves drawn before publication.
    `account`: where the guarantee is paid for, or `counted`: what the claim says of its payment.
    """

    in_order: bool = True
    where: str | None = None
    imputed: bool = False
    given_drawn: bool = False
    account: PayingAccount | None = None
    counted: str | None = None

    def paid(self, survey: Survey, mechanisms: Sequence[Mechanism]) -> str:
        """The sentence about the payment, which is made now if it was not yet."""
        from understudy.dp.account import charged  # the outside, which imports this, pays nothing

        if self.counted is not None:
            return self.counted
        unit = survey.codebook.unit_column or RECORD
        names = [type(mechanism).__name__ for mechanism in mechanisms]
        what = f"a synthesis by {' and '.join(names)}"
        costs = [mechanism.cost() for mechanism in mechanisms]
        return charged(self.account, survey, costs, unit, what)


def outcome_conditions(
    survey: Survey, model: OutcomeModel, missing: str, publication: Publication
) -> tuple[str, ...]:
    unit = survey.codebook.unit_column
    drawn = [*model.sensitive, unit] if hides_unit(survey) else model.sensitive
    kept = [name for name in survey.columns if name not in drawn]
    conditions = [model.units(survey.codebook), *_types(survey, model.sensitive)]
    if unit is not None:
        conditions.append(
            f"Which records belong to one `{unit}` does not depend on confidential values"
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
    conditions = [IMPUTED] if publication.imputed else []
    if publication.where is not None:
        conditions.append(
            f"Only records with `{publication.where}` were used; which and how many they were is "
            "not covered, nor what a record that is there tells of the columns in this condition"
        )
    return tuple(conditions)


def published_codebook(dataset: Survey, synthesized: Iterable[str]) -> Codebook:
    """The codebook of a published file. Of a synthesized column that is not declared, the type is
    that of the file (the claim says so) and nothing else is told."""
    codebook = without_drafts(dataset.codebook, list(dataset.codebook.columns))
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


def outcome_ground(
    kept: Survey, filled: Survey, model: OutcomeModel, look_inside: bool, in_place: bool = False
) -> Ground:
    """What the sensitive columns are made of beside parameters: the public columns, row by row.

    `kept` are the records to be published from, and `filled` the same without missing values;
    where nothing is claimed, the model may look at these (`look_inside`). `in_place`: the public
    columns stay where they are.
    """
    hidden = [kept.codebook.unit_column or ""] if hides_unit(kept) else []
    columns = tuple(name for name in kept.columns if name not in hidden)
    shown = [name for name in columns if name not in model.sensitive]
    codebook = kept.codebook.without_unit() if hidden else kept.codebook
    public: Any = kept.raw.select(shown) if shown else pl.DataFrame()
    if not in_place and shown:
        public = public.to_polars()
    known = model.known(filled)
    if look_inside:
        known = dict(zip(model.sensitive, filled.frame(list(model.sensitive)), strict=True))
    else:
        codebook = without_drafts(codebook, model.sensitive)
    return Ground(
        (model,),
        columns,
        codebook,
        model.published_design(kept.design),
        kept.n,
        public,
        pl.DataFrame(list(known.values())),
        {name: published_dtype(kept, name) for name in model.sensitive},
    )


def rows_ground(survey: Survey, model: RowsModel) -> Ground:
    """What records are made of beside noisy counts."""
    types = {name: published_dtype(survey, name) for name in model.columns}
    codebook = without_drafts(survey.codebook.without_unit(), model.columns)
    return Ground((model,), model.columns, codebook, Design(), survey.n, types=types)


def file_ground(survey: Survey, model: FileModel, look_inside: bool) -> Ground:
    """What whole files are made of beside noisy tables: the columns that are kept, row by row."""
    codebook = with_known_strata(survey.codebook, survey.design).without_unit()
    if not look_inside:  # bounds of a formula decide which records are drawn again
        computed = [column.name for column in codebook if column.derived]
        codebook = without_drafts(codebook, [*model.sensitive, *computed])
    kept = survey.raw.select(list(model.keep)).to_polars() if model.keep else pl.DataFrame()
    design = model.published_design(survey.design)
    shown = survey.n if model.size is None else 0  # with a size of their own, files need no other
    return Ground((model,), model.columns or (), codebook, design, shown, kept)


def said_of_chance(claim: Claim, chance: Chance) -> Claim:
    """The claim with what must be said of the seed."""
    conditions = [*claim.conditions]
    conditions.insert(0 if chance.for_studies else len(conditions), chance.condition)
    return replace(claim, conditions=tuple(conditions))
