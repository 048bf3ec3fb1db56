"""The inside of a release: the confidential survey, read once, and what will be done with it.

The synthetic files hold only what the recipe names: the sensitive columns, predictors,
classifying and design columns, and `publish`. A column that nobody named is never published.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.chance import Chance
from understudy.corrected_table import Corrections, check_corrected
from understudy.dp.account import UNHEARD
from understudy.errors import Refused, UnknownName
from understudy.fitting.missing import without_missing
from understudy.internal_mark import marked
from understudy.ledger.fingerprint import FileIdentity
from understudy.mechanisms.contract import Mechanism
from understudy.models.contract import FileModel, Model, OutcomeModel, RowsModel
from understudy.publication import Publication, hides_unit
from understudy.release.confidential_file import (
    identified,
    in_order,
    public_order,
    read_file,
    restricted,
    with_whole_codes,
)
from understudy.release.mixed import Given, mixed_for
from understudy.release.narrowed import computed_in, narrowed_to, stays_in_place
from understudy.release.parts import own_files
from understudy.release.recipe import Recipe
from understudy.release.rehearsal import rehearsal
from understudy.release.totals import check_totals
from understudy.report.inside_facts import RiskSettings
from understudy.report.verdict import Fitness
from understudy.risk.attacks import Rehearsal
from understudy.risk.measure import measure_of
from understudy.survey.codebook import Codebook, read_codebook
from understudy.survey.codebook_text import codebook_beside, codebook_to_toml
from understudy.survey.design import Design
from understudy.survey.formula import formula_columns
from understudy.survey.implicates import Implicates, check_same_records, implicates
from understudy.survey.published_type import published_dtype
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.synthesis import Synthesis, synthesize_for
from understudy.tables.corrected import resting_on_drawn
from understudy.tables.statistic import Statistic, parse_statistic
from understudy.tables.tabulate import tabulate
from understudy.tables.units import Unit
from understudy.version import __version__

LOOKED_AT = 200_000  # records of a file, for evidence other than tables, regressions and risk


@dataclass(frozen=True, eq=False)
class Inside:
    """Everything that `synthesize` needs, and the identity of the release. Confidential."""

    recipe: Recipe
    whole: Survey = field(repr=False)  # all columns, the steward's design
    implicates: Implicates = field(repr=False)  # all of them, `whole` the first; empty: none
    narrowed: Survey = field(repr=False)  # what is published, with the published design
    model: Model
    mechanism: Mechanism
    given: tuple[Given, ...]
    synthesized: tuple[str, ...]  # every column that is drawn, also a weight
    file: FileIdentity  # of the confidential records, as the ledger knows them
    identity: str  # of the release: same identity, same bytes (but for OpenDP's noise)
    in_place: bool  # whether an outcome is fitted where the records are, on disk or on Spark

    @property
    def title(self) -> str:
        return self.recipe.output.title or self.whole.codebook.title or self.recipe.name

    @property
    def model_name(self) -> str:
        return str(self.recipe.model)

    @property
    def mechanism_name(self) -> str:
        return str(self.recipe.mechanism)

    @property
    def by(self) -> tuple[str, ...]:
        return self.recipe.tables.by

    @property
    def regression(self) -> str | None:
        return self.recipe.utility.regression

    @property
    def fitness(self) -> Fitness | None:
        return self.recipe.fitness

    @property
    def risk(self) -> RiskSettings | None:
        """The intruder that the recipe describes, where a number was synthesized."""
        asked = self.recipe.risk
        if asked is None or not self.numeric:
            return None
        measure = measure_of(asked.measure, self.recipe.folder)
        known = self.recipe.known
        return RiskSettings(known, self.numeric, asked.radius, asked.threshold, measure)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """All that spend: the mechanism and those of the regressions."""
        return (self.mechanism, *(step.mechanism for step in self.given))

    @property
    def unseeded(self) -> list[str]:
        """Whatever has noise without a seed: made again, it gives other bytes."""
        names = [type(mechanism).__name__ for mechanism in self.mechanisms if not mechanism.seeded]
        return names if self.corrections is None else [*names, "the corrected table"]

    @property
    def as_collected(self) -> list[str]:
        """The columns that are published as they are: neither drawn nor computed from such, and not
        the unit."""
        survey = self.narrowed
        made = {*self.synthesized, *computed_in(survey, self.model)}
        hidden = {survey.codebook.unit_column} if hides_unit(survey) else set()
        return [name for name in survey.columns if name not in made | hidden]

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns that the recipe calls sensitive."""
        steps = (name for step in self.recipe.given for name in step.model.sensitive)
        return (*(self.recipe.model.sensitive or self.model.sensitive), *steps)

    @cached_property
    def confidential(self) -> Survey:
        """The records that the synthetic files stand for, with the steward's whole design."""
        return self._kept(self.whole)

    @cached_property
    def counted(self) -> Survey:
        """The records as the mechanism sees them: of a whole file also with the PSUs, which are
        never published and which a design effect can be measured from."""
        whole, published = self.whole.design, self.narrowed.design
        if whole.psu is None or not isinstance(self.model, FileModel):
            return self.narrowed
        design = Design(published.weight, whole.strata, whole.psu, nest=whole.nest)
        names = dict.fromkeys([*self.narrowed.columns, *design.named])
        return Survey(self.whole.raw.select(list(names)), design, self.narrowed.codebook)

    @cached_property
    def corrected_records(self) -> Survey:
        """The same records with the published columns and design: what their table is corrected
        towards, and what the claim is about."""
        return self._kept(self.narrowed)

    @property
    def corrections(self) -> Corrections | None:
        """What the recipe spends on the table, in the relation and for the unit of the files."""
        tables = self.recipe.tables
        if tables.correct is None:
            return None
        relations = {mechanism.relation for mechanism in self.mechanisms}
        relation = relations.pop() if len(relations) == 1 else "replace"
        corrections = Corrections(tables.correct, tables.correct_delta, relation)
        codebook = self.narrowed.codebook
        if codebook.unit_column is None:
            return corrections
        unit = Unit(codebook.unit_column, codebook.records_per_unit)
        return replace(corrections, unit=unit.column, records=unit.limit)

    @property
    def corrected(self) -> dict[str, Any]:
        """What is corrected, at what price and for whom, for the manifest."""
        asked = self.corrections
        texts = [statistic.text for statistic in self.corrected_statistics]
        return (
            {}
            if asked is None
            else {**asdict(asked), "noise": asked.noise.word, "statistics": texts}
        )

    @cached_property
    def corrected_statistics(self) -> tuple[Statistic, ...]:
        """What the table is corrected in."""
        codebook = self.narrowed.codebook
        derived = [column.name for column in codebook if column.derived]
        drawn = (*self.synthesized, *derived)
        public = [name for name in self.narrowed.columns if name not in drawn]
        return resting_on_drawn(self.statistics, self.by, self.narrowed.design.weight, public)

    @cached_property
    def analysed(self) -> Survey | Implicates:
        """What estimates of the confidential file are made from: all of its implicates."""
        if not self.implicates:
            return self.confidential
        return Implicates(self._kept(each) for each in self.implicates)

    @cached_property
    def confidential_table(self) -> pl.DataFrame:
        """Of the confidential records, by the steward's whole design."""
        return tabulate(self.analysed, self.statistics, self.by, self.recipe.tables.margins)

    @property
    def publication(self) -> Publication:
        """The files are sorted by content before they are published."""
        counted = UNHEARD if self.recipe.ledger is None else ""
        where, imputed = self.recipe.data.where, bool(self.implicates)
        return Publication(in_order=False, where=where, imputed=imputed, counted=counted)

    def try_published_design(self) -> None:
        """Refused where the table of the synthetic files would be: before anything is spent.

        A design that the steward's own table has been computed by needs no second trial, nor does
        one that names no column.
        """
        design = self.narrowed.design
        if design != self.whole.design and design.named:
            published = self._kept(self.narrowed)
            tabulate(published, self.statistics, self.by, self.recipe.tables.margins)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """The sensitive columns that hold numbers."""
        types = {name: published_dtype(self.narrowed, name) for name in self.sensitive}
        numbers = tuple(name for name, kind in types.items() if kind.is_numeric())
        if not isinstance(self.model, FileModel):
            return numbers
        design = self.narrowed.design.columns(self.narrowed.columns)  # a weight is drawn too
        codebook = self.narrowed.codebook
        return tuple(
            name for name in numbers if name not in design and codebook[name].type != "categorical"
        )

    @property
    def asked_statistics(self) -> tuple[str, ...]:
        """As they were asked for, with the files of the steward's own; or means of what was
        synthesized."""
        means = (f"mean(`{name}`)" for name in self.numeric)
        return tuple(self.recipe.tables.statistics) or ("count", *means)

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        columns, folder = self.narrowed.columns, self.recipe.folder
        return tuple(parse_statistic(text, columns, folder) for text in self.asked_statistics)

    def sample(self, records: int) -> NDArray[np.int64] | None:
        """The records of a file that distributions are looked at in: all, or so many at random, by
        a seed that only those know who have the file."""
        if records <= LOOKED_AT:
            return None
        rng = Chance(hashlib.sha256(self.identity.encode()).digest(), "system").generator("sample")
        return np.sort(rng.choice(records, LOOKED_AT, replace=False))

    def rehearse(self) -> Rehearsal | None:
        """Attacks on the same method, run on half of the records."""
        return rehearsal(self)

    def synthesize(self, chance: Chance, progress: bool | None) -> Synthesis:
        """Fit and draw; refused when the sampler's diagnostics fail."""
        recipe = self.recipe
        publication = self.publication
        fit, datasets = recipe.fit_settings(progress), recipe.synthesis.datasets
        if self.given and isinstance(self.model, RowsModel):
            return mixed_for(
                publication, self.narrowed, self.model, self.mechanism, self.given, datasets,
                chance, fit,
            )  # fmt: skip
        return synthesize_for(
            publication, self.counted, self.model, self.mechanism, datasets, chance, fit,
            in_place=self.in_place,
        )  # fmt: skip

    def _kept(self, survey: Survey) -> Survey:
        if self.recipe.synthesis.missing == "drop":
            return without_missing(survey, self.recipe.model.sensitive)[0]
        return survey


def prepare(recipe: Recipe) -> Inside:
    """Read the file, once, and check everything; nothing is spent and nothing is written."""
    if recipe.data.path is not None and not recipe.path.exists():
        read_file(recipe)  # refused: nothing is there to be looked at
    model = recipe.model.build(recipe.synthesis.missing)

    def asked_for(each: Survey) -> Survey:
        return with_whole_codes(restricted(recipe, each), isinstance(model, FileModel))

    with marked():
        read = read_file(recipe)
        file, ordered = identified(read)
        column = recipe.data.implicates
        several = [] if column is None else implicates(read, column)
        several = Implicates(asked_for(each) for each in several)
        if several:
            check_same_records(several)
        whole = several[0] if several else asked_for(read)
        check_totals(whole)
    if isinstance(model, FileModel):
        model = model.for_survey(whole)
    narrowed = narrowed_to(recipe, whole, model)
    drawn = [name for step in recipe.given for name in step.model.sensitive]
    drawn += model.for_survey(narrowed).sensitive
    hidden = [*drawn, *computed_in(narrowed, model), whole.codebook.unit_column]
    in_place = not several and stays_in_place(recipe, narrowed, model)
    order = None
    if not in_place:
        order = public_order(whole, [name for name in narrowed.columns if name not in hidden])
    if order is not None:
        several = Implicates(in_order(each, order) for each in several)
        whole = several[0] if several else in_order(whole, order)
    narrowed = narrowed_to(recipe, whole, model)
    _check_columns(recipe, narrowed)
    references: list[str] = []

    def reference(path: Path) -> Survey:
        past, digest = _reference(recipe, path, narrowed)
        references.append(digest)
        return past

    mechanism = recipe.mechanism.build(reference)
    regressions = tuple(
        Given(_outcome(step.model.build()), step.mechanism.build(reference))
        for step in recipe.given
    )
    parts = [
        recipe.canonical(),
        ordered,  # the order of the records too
        codebook_to_toml(whole.codebook),
        *references,
        *_own_files(recipe),
        __version__,
    ]
    identity = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    inside = Inside(
        recipe, whole, several, narrowed, model, mechanism, regressions, tuple(drawn), file,
        identity, in_place,
    )  # fmt: skip
    if inside.corrections is not None:
        check_corrected(inside.statistics, inside.by)
        if not inside.corrected_statistics:
            raise Refused(
                "The table rests on columns that are published as they are, so there is nothing to "
                "correct; leave out `correct`."
            )
    return inside


def _outcome(model: Model) -> OutcomeModel:
    if not isinstance(model, OutcomeModel):
        raise Refused("A model of [[given]] synthesizes numbers given categories, not whole rows.")
    return model


def _reference(recipe: Recipe, path: Path, like: Survey) -> tuple[Survey, str]:
    """A historical survey with the columns, design and codebook of the confidential one, and the
    digest of its records."""
    past = read_survey(path, codebook=_codebook_of_reference(recipe, path, like))
    digest = identified(past)[1]
    column = recipe.data.implicates
    past = restricted(recipe, implicates(past, column)[0] if column in past.columns else past)
    unit, codebook, names = like.codebook.unit_column, like.codebook, like.columns
    if hides_unit(like) and unit not in past.columns:
        codebook, names = codebook.without_unit(), tuple(name for name in names if name != unit)
    for name in names:
        if name not in past.columns:
            raise UnknownName(f"column of `{path.name}`", name, past.columns)
    # never the file's own types: one confidential decimal would undo the reference's rounding
    kinds = pl.Schema({name: published_dtype(like, name) for name in names})
    typed = past.raw.select(list(names)).cast(ibis.Schema.from_polars(kinds))
    return Survey(typed, like.design, codebook), digest


def _codebook_of_reference(recipe: Recipe, path: Path, like: Survey) -> Codebook | None:
    """The declared codebook says which texts of a CSV file are missing codes, of the past too; but
    for a reference with a codebook of its own beside it."""
    beside = codebook_beside(recipe.path)
    declared = recipe.codebook or (beside if beside.exists() else None)
    if declared is None or codebook_beside(path).exists():
        return None
    shared = [name for name in read_survey(path).columns if name in like.columns]
    return Codebook(read_codebook(declared).only(shared).columns)


def _check_columns(recipe: Recipe, narrowed: Survey) -> None:
    """Statistics and formulas must be possible with the published columns alone."""
    for text in recipe.tables.statistics:
        parse_statistic(text, narrowed.columns, recipe.folder)
    if recipe.risk is not None:
        measure_of(recipe.risk.measure, recipe.folder)
    for name in (*recipe.tables.by, *(n for names in recipe.known for n in names)):
        if name not in narrowed.columns:
            raise UnknownName("published column", name, narrowed.columns)
        if name in recipe.model.sensitive and name in [n for k in recipe.known for n in k]:
            raise Refused(
                f"`{name}` is synthesized; an intruder knows public columns, not this one."
            )
    for name in formula_columns(recipe.utility.regression or "1"):
        if name not in narrowed.columns:
            raise UnknownName("column of the regression", name, narrowed.columns)


def _own_files(recipe: Recipe) -> list[str]:
    """The steward's own files decide the bytes too."""
    named = [recipe.model.name, recipe.mechanism.name]
    named += [recipe.data.format or "", *recipe.output.formats, *recipe.tables.statistics]
    named += [recipe.risk.measure] if recipe.risk is not None else []
    for step in recipe.given:
        named += [step.model.name, step.mechanism.name]
    files = [recipe.folder / file for name in named for file in own_files(name)]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
