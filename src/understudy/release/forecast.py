"""`--dry-run`: what a recipe will do, what it will claim, and about how long it will take.

One gradient of the model's density is timed on these records and multiplied by the gradients that
a fit needs. How many these are depends on the posterior, so a range is given: short trees and
chains that agree at once, or long trees and chains that must run on. Nothing is spent or written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from understudy.errors import Refused
from understudy.fitting.fitter import without_missing
from understudy.models.contract import Model
from understudy.models.density import density_of
from understudy.models.gaussian import GaussianModel
from understudy.release.parts import mechanism_words, model_words
from understudy.release.prepare import Prepared
from understudy.release.recipe import MechanismPart

STEPS = (7, 127)  # gradients of one iteration of NUTS: an easy posterior, and a hard one
LONGER = 4  # chains that do not agree are run on
BASE_SECONDS, BASE_BYTES = 15.0, 600e6  # compiling and reports; the libraries themselves
FITS = {"Weighted": 6, "WeightedE": 3, "Censored": 2, "ReferenceCensored": 3}  # others: 1
KINDS = {
    "Weighted": "asymptotic",
    "WeightedE": "asymptotic",
    "Censored": "formal",
    "ReferenceCensored": "formal",
    "PerturbedHistogram": "formal",
    "Modips": "formal",
    "Marginals": "formal",
}  # others: risk


def forecast(prepared: Prepared, out: Path | None = None) -> list[str]:
    """Sentences for the steward, in the order in which they matter."""
    recipe = prepared.recipe
    survey = prepared.narrowed
    kept = [name for name in survey.columns if name not in prepared.synthesized]
    seconds, size = _cost(prepared)
    formats = ", ".join(("parquet", *recipe.formats))
    lines = [
        f"{prepared.title}: {survey.n:,} records of `{recipe.path.name}`.",
        f"Synthesized: {', '.join(prepared.synthesized)}, by {model_words(recipe.model)}.",
        f"Published as they are: {', '.join(kept) or 'nothing'}.",
        f"Files: {recipe.datasets} data sets ({formats}), table, claim, two reports, manifest, in "
        f"`{out or recipe.out}`.",
        _promise(prepared),
        f"{_between(*seconds)}, about {size / 1e9:.1f} GB of memory on this machine.",
    ]
    if recipe.ledger is not None:
        from understudy.release.spending import total_price

        lines.append(f"The ledger will be charged epsilon {total_price(prepared):f} (replace).")
    return [*lines, "Nothing was spent and nothing was written."]


def _promise(prepared: Prepared) -> str:
    recipe = prepared.recipe
    named = [recipe.mechanism, *(one.mechanism for one in recipe.given)]
    kinds = [KINDS.get(part.name, "risk") for part in named]
    if any(
        p.name == "Modips" and p.options.get("support", "observed") == "observed" for p in named
    ):
        return f"Claim: kind `local` ({words_of(named)}): which cells are empty is not covered."
    words = words_of(named)
    if "risk" in kinds:
        return f"Claim: kind `risk`, no epsilon ({words}); risk is measured, not bounded."
    total = sum(float(part.options.get("epsilon", np.nan)) for part in named)
    kind = "asymptotic" if "asymptotic" in kinds else "formal"
    if np.isnan(total):
        return f"Claim: kind `{kind}`, with the epsilon that results ({words})."
    return (
        f"Claim: kind `{kind}`, epsilon {total:g} over all data sets ({words}), if the sampler's "
        "diagnostics pass."
    )


def words_of(parts: Sequence[MechanismPart]) -> str:
    return " and ".join(mechanism_words(part) for part in parts)


def _cost(prepared: Prepared) -> tuple[tuple[float, float], float]:
    """((least, most) seconds, bytes), roughly."""
    recipe, survey, model = prepared.recipe, prepared.narrowed, prepared.model
    values = survey.n * len(survey.columns) * 8.0
    size = BASE_BYTES + values * (recipe.datasets + 3)
    if not isinstance(model, Model):
        more = 3e-6 * survey.n * len(recipe.model.sensitive) * recipe.datasets
        return (BASE_SECONDS + more, 2 * BASE_SECONDS + 10 * more), size
    fits = FITS.get(recipe.mechanism.name, 1)
    clipped = "Censored" in recipe.mechanism.name
    if isinstance(model, GaussianModel) and not clipped:
        return (BASE_SECONDS, 2 * BASE_SECONDS + fits), size
    iterations = recipe.draws + recipe.chains * recipe.warmup
    once = _gradient_seconds(model, prepared) * iterations / min(recipe.chains, 2)
    hard = 2 * BASE_SECONDS + fits * once * STEPS[1] * LONGER
    return (BASE_SECONDS + once * STEPS[0], hard), size


def _gradient_seconds(model: Model, prepared: Prepared) -> float:
    """One gradient of the sum of record log-likelihoods at a middling point."""
    survey = prepared.narrowed
    if prepared.recipe.missing != "refuse":
        survey = without_missing(survey, prepared.recipe.model.sensitive)[0]
    model = model.for_survey(survey)
    arrays: Any = model.prepare(survey)
    density = density_of(model, arrays)
    run = jax.jit(jax.grad(lambda q: density.record_loglik(q, arrays).sum()))
    point = np.full(density.dimension, 0.1)
    try:
        run(point).block_until_ready()
    except (FloatingPointError, ValueError):
        raise Refused("The model's density cannot be evaluated on these records.") from None
    begun = time.perf_counter()
    for _ in range(5):
        run(point).block_until_ready()
    return (time.perf_counter() - begun) / 5


def _between(least: float, most: float) -> str:
    return f"Between {_told(least)} and {_told(most)}"


def _told(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.0f} hours"
