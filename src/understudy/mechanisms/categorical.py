"""Categorical records, whole: a survey's cross-tabulation in, m synthetic surveys and a claim out.

    survey -> cross_tabulate -> noise (Modips) -> Dirichlet -> Multinomial -> records

`Unweighted()` leaves out the noise: that is MS, of kind `risk`. Large results lie in Parquet
files in the process's scratch folder, so that memory follows the cells and not the records.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from understudy.claim import Claim
from understudy.dp.noise import Counts
from understudy.errors import Refused
from understudy.mechanisms.marginals import Marginals, marginal_tables
from understudy.mechanisms.modips import MOST_CELLS, Modips, rescaled
from understudy.models.multinomial import Multinomial, side_by_side, synthetic_counts
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.engine import new_scratch_file, parquet_table
from understudy.survey.survey import Survey
from understudy.tables.cross_table import (
    Categories,
    CrossTable,
    categories_of,
    cross_tabulate,
    full_domain,
    possible_cells,
    without_impossible,
)

IN_MEMORY = 5_000_000  # values of one data set; larger ones are written to the scratch folder

WITHOUT_WEIGHTS = (
    "Design weights were not used: the synthetic records stand for the file's records, each once"
)
MISSING_LEVEL = "A missing value is a level of its own, and is synthesized like the others"


@dataclass(frozen=True, eq=False)
class CategoricalSynthesis:
    """What `synthesize` gives back for a Multinomial model.

    For publication: `datasets` and `claim`; where the claim is formal also `draws`, the noisy
    tables that the data sets were made from. `tables` are the data sets as counts of cells.
    """

    datasets: list[Survey]
    claim: Claim
    tables: list[CrossTable] = field(repr=False)
    draws: list[dict[str, Any]] = field(repr=False)
    diagnostics: None = None
    dropped: int = 0


def synthesize_categorical(
    survey: Survey,
    model: Multinomial,
    mechanism: Any,
    datasets: int = 1,
    seed: int = 0,
) -> CategoricalSynthesis:
    """m synthetic files of the model's columns, with the original levels, labels and types.

    `mechanism` is Unweighted() (MS), Modips(...) or Marginals(...). The seed is for the Dirichlet
    and multinomial draws; the noise comes from OpenDP and has none. Rows come in the order of
    their cells.
    """
    _refuse_arguments(survey, model, mechanism, datasets, seed)
    table = tabulated(survey, model, mechanism)
    size = model.size or table.n
    rngs = [np.random.default_rng([seed, number]) for number in range(datasets)]
    if isinstance(mechanism, Marginals):
        tables, draws = marginal_tables(table, mechanism, datasets, size, rngs, _allowed(survey))
    else:
        tables, draws = _from_counts(table, model, mechanism, size, rngs)
    claim = _claim(survey, model, mechanism, datasets)
    codebook = public_codebook(survey.codebook, table.categories)
    return CategoricalSynthesis(
        [Survey(_stored(one), Design(), codebook) for one in tables],
        claim,
        tables,
        draws if claim.kind == "formal" else [],
    )


def tabulated(survey: Survey, model: Multinomial, mechanism: Any) -> CrossTable:
    """The confidential table over the cells of the mechanism's support."""
    categories = categories_of(survey, model.columns, model.missing)  # type: ignore[arg-type]
    public = isinstance(mechanism, Modips) and mechanism.support == "public"
    if public:
        _refuse_product(categories)
    if public or isinstance(mechanism, Marginals):
        drafted = survey.codebook.not_declared(dict.fromkeys(model.columns, "levels"))
        if drafted:
            raise Refused(
                f"A formal claim rests on `{drafted[0]}`, which is not declared; declare it in the "
                "codebook from what is public."
            )
    table = without_impossible(cross_tabulate(survey, categories), survey)
    if table.n == 0:
        raise Refused("The survey has no records; check the file or the filter that made it.")
    return full_domain(table, survey) if public else table


def public_codebook(codebook: Codebook, categories: Categories) -> Codebook:
    """The codebook of the synthetic file: no level that was only drafted from the records."""
    kept = codebook.only(list(categories.columns))
    for column in list(kept):
        if "levels" in column.drafted or "bounds" in column.drafted:
            levels = None if "levels" in column.drafted else column.levels
            kept = kept.with_column(replace(column, levels=levels, bounds=None))
    ordered = {name: kept[name] for name in categories.columns}
    return replace(kept, columns=ordered, population_by={})


def _from_counts(
    table: CrossTable,
    model: Multinomial,
    mechanism: Any,
    size: int,
    rngs: list[np.random.Generator],
) -> tuple[list[CrossTable], list[dict[str, Any]]]:
    """MS or MODIPS: each data set from its own sanitised counts (M §2.2.4)."""
    if isinstance(mechanism, Modips):
        _warn_useless(table, mechanism, len(rngs))

    def one_set(rng: np.random.Generator) -> tuple[CrossTable, dict[str, Any]]:
        if not isinstance(mechanism, Modips):
            made = synthetic_counts(table.counts, size, model.prior, rng)
            return replace(table, counts=made), {}
        noisy = mechanism.noisy(table.counts, len(rngs))
        cells = table
        if mechanism.support == "threshold":
            cells = _shown(table, noisy)
            noisy = cells.counts
        made = synthetic_counts(rescaled(noisy, size), size, model.prior, rng)
        return replace(cells, counts=made), {"codes": cells.codes, "noisy_counts": noisy}

    drawn = side_by_side(one_set, rngs)
    return [one for one, _ in drawn], [draw for _, draw in drawn if draw]


def _shown(table: CrossTable, noisy: Counts) -> CrossTable:
    """The cells above the threshold; a release in which none is left has nothing to say."""
    kept = noisy > 0
    if not kept.any():
        raise Refused(
            "No cell reaches the threshold at this epsilon and delta; ask for more epsilon, or "
            "model fewer columns."
        )
    return CrossTable(table.categories, table.codes[kept], noisy[kept])


def _claim(survey: Survey, model: Multinomial, mechanism: Any, datasets: int) -> Claim:
    if isinstance(mechanism, (Modips, Marginals)):
        claim = mechanism.claim(datasets, size_is_public=model.size is None)
    else:
        claim = Claim("risk", None, mechanism=f"Multinomial synthesis (MS), {datasets} data sets")
    conditions = list(claim.conditions)
    if survey.design.weight is not None:
        conditions.append(WITHOUT_WEIGHTS)
    if model.missing == "level":
        conditions.append(MISSING_LEVEL)
    return replace(claim, conditions=tuple(conditions))


def _allowed(survey: Survey) -> Callable[[CrossTable], Any]:
    """Which cells the codebook's edit rules allow, as a function of the cells."""

    def possible(cells: CrossTable) -> Any:
        codebook = survey.codebook
        return possible_cells(cells.categories, cells.codes, codebook.impossible, codebook.columns)

    return possible


def _stored(table: CrossTable) -> Any:
    """The records as a frame, or as a Parquet file on disk when they are many."""
    frame = table.records()
    if frame.height * frame.width <= IN_MEMORY:
        return frame
    path = new_scratch_file(".parquet")
    frame.write_parquet(path, compression="zstd", compression_level=1, statistics=False)
    return parquet_table(path)


def _warn_useless(table: CrossTable, mechanism: Modips, datasets: int) -> None:
    """Noise that is larger than the mean cell leaves little but the prior and the noise."""
    scale = mechanism.scale(datasets)
    mean = table.n / table.cells
    if scale > mean:
        needed = mechanism.epsilon * scale / mean
        warnings.warn(
            f"At epsilon {mechanism.epsilon:g} for {datasets} data sets the noise has an expected "
            f"error of about {scale:.3g} per cell, and the mean cell holds {mean:.3g} records; "
            f"epsilon {needed:.3g}, fewer columns or data sets, or Marginals would say more.",
            UserWarning,
            stacklevel=4,
        )


def _refuse_product(categories: Categories) -> None:
    if categories.product <= MOST_CELLS:
        return
    sizes = dict(zip(categories.columns, categories.sizes, strict=True))
    widest = max(sizes, key=lambda name: sizes[name])
    raise Refused(
        f"The full domain has {categories.product:,} cells, more than {MOST_CELLS:,}; column "
        f"`{widest}` alone has {sizes[widest]} levels: group its levels, model fewer columns, or "
        'use Marginals or support="threshold".'
    )


def _refuse_arguments(survey: Any, model: Any, mechanism: Any, datasets: Any, seed: Any) -> None:
    from understudy.mechanisms.unweighted import Unweighted

    if not isinstance(survey, Survey):
        raise Refused("`survey` must be a Survey; make one with `Survey(frame)` or `read_survey`.")
    if not isinstance(model, Multinomial):
        raise Refused('`model` must be Multinomial(["column", ...]) for categorical synthesis.')
    if not isinstance(mechanism, (Modips, Marginals, Unweighted)):
        raise Refused(
            "A Multinomial model goes with Modips(epsilon), Marginals(epsilon) or Unweighted()."
        )
    for value, name, least in ((datasets, "datasets", 1), (seed, "seed", 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise Refused(f"`{name}` must be a whole number of at least {least}.")
