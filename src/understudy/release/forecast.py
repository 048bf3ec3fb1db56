"""`--dry-run`: what a recipe will do, what it will claim, and about how long it will take.

Where a mechanism rehearses its fits, the rehearsal is run and timed. Elsewhere one gradient of the
model's density is timed on these records and multiplied by the gradients that a fit needs. How many
these are depends on the posterior, so a range is given: short trees and chains that agree at once,
or long trees and chains that must run on. Nothing is spent or written.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from understudy.claim import KINDS
from understudy.corrected_table import Corrections
from understudy.errors import Refused
from understudy.fitting.missing import without_missing
from understudy.internal_mark import with_mark
from understudy.mechanisms.contract import Rehearsed
from understudy.mechanisms.whole_file.records import BLOCK
from understudy.models.contract import FileModel, OutcomeModel
from understudy.release.correct import expected_corrections
from understudy.release.inside import Inside
from understudy.release.kept import check_kept
from understudy.release.model_advice import model_advice
from understudy.release.rule_notes import rule_notes
from understudy.release.shape import shape_notes
from understudy.release.spending import price
from understudy.release.totals import totals_said
from understudy.survey.file_format import always_released
from understudy.survey.read import IN_MEMORY
from understudy.synthesis import ready_outcome

STEPS = (7, 127)  # gradients of one iteration of NUTS: an easy posterior, and a hard one
LONGER = 4  # chains that do not agree are run on
WITHIN = 2.0  # times the forecast, either way, where fits were rehearsed
BASE_SECONDS, BASE_BYTES = 15.0, 600e6  # compiling and reports; the libraries themselves
A_COLUMN, A_VALUE = 1.2, 3e-7  # seconds of a whole file for each
A_RECORD, COPIES = 100, 3  # bytes that stay in memory for each record; copies of what is held


def forecast(inside: Inside, out: Path | None = None) -> list[str]:
    """Sentences for the steward, in the order in which they matter."""
    recipe = inside.recipe
    survey = inside.narrowed
    rehearsed = _rehearsed(inside)
    seconds, size = _cost(inside, rehearsed.seconds)
    formats = ", ".join((always_released().written_name, *recipe.output.formats))
    lines = [
        with_mark(f"{inside.title}: {survey.n:,} records of `{recipe.path.name}`."),
        f"Synthesized: {', '.join(inside.synthesized)}, by {recipe.model}.",
        f"Published as they are: {', '.join(inside.as_collected) or 'nothing'}.",
        f"Files: {recipe.synthesis.datasets} data sets ({formats}), table, claim, two reports, "
        f"manifest, in `{out or recipe.out}`.",
        _promise(inside),
        f"{_between(*seconds)}, about {size / 1e9:.1f} GB of memory on this machine.",
        *([f"A rehearsal passed with {rehearsed.settled}."] if rehearsed.settled else []),
    ]
    # read off the records, or off their number, which a noisy size hides
    datasets = recipe.synthesis.datasets
    notes = shape_notes(survey, inside.model) + rule_notes(survey, inside.model)
    notes += inside.mechanism.forecast(inside.model, inside.counted, datasets)
    if inside.corrections is not None:
        lines.insert(5, _prices(inside, inside.corrections))
        notes += expected_corrections(inside)
    said = [totals_said(inside.whole), check_kept(inside)]
    lines += [*map(with_mark, notes), *filter(None, said)]
    lines += model_advice(inside.model, inside.mechanism, survey)
    if recipe.ledger is not None:
        lines.append(f"The ledger will be charged {price(inside)}.")
    return [*lines, "Nothing was spent and nothing was written."]


def _promise(inside: Inside) -> str:
    """The claim that the mechanisms declare, composed: the weakest kind, the sum of epsilons."""
    recipe = inside.recipe
    parts = (recipe.mechanism, *(step.mechanism for step in recipe.given))
    words = " and ".join(str(part) for part in parts)
    if inside.corrections is not None:
        words += " and the corrected table"
    kind = max((mechanism.claims for mechanism in inside.mechanisms), key=KINDS.index)
    if kind == "local":
        return f"Claim: kind `local` ({words}): a figure for comparison, not a guarantee."
    if kind == "risk":
        return f"Claim: kind `risk`, no epsilon ({words}); risk is measured, not bounded."
    epsilons = [mechanism.epsilon for mechanism in inside.mechanisms]
    if inside.corrections is not None:
        epsilons.append(inside.corrections.epsilon)
    if None in epsilons:
        return f"Claim: kind `{kind}`, with the epsilon that results ({words})."
    total = sum(float(epsilon) for epsilon in epsilons if epsilon is not None)
    fitted = any(mechanism.fits for mechanism in inside.mechanisms)
    passing = ", if the sampler's diagnostics pass" if fitted else ""
    return f"Claim: kind `{kind}`, epsilon {total:g} over all data sets ({words}){passing}."


def _prices(inside: Inside, corrections: Corrections) -> str:
    """What the files cost and what the corrections do; the claim is of both."""
    known = [mechanism.epsilon for mechanism in inside.mechanisms]
    files = sum(epsilon for epsilon in known if epsilon is not None)
    delta = f" and delta {corrections.delta:g}" if corrections.delta else ""
    said = "the epsilon that results" if None in known else f"epsilon {files:g}"
    texts = ", ".join(statistic.text for statistic in inside.corrected_statistics)
    return (
        f"The table is corrected in {texts}: epsilon {corrections.epsilon:g}{delta} "
        f"({corrections.noise.word}), and the files cost {said}."
    )


def _rehearsed(inside: Inside) -> Rehearsed:
    """What the checks of the records have rehearsed."""
    if not isinstance(inside.model, OutcomeModel):
        return Rehearsed(inside.mechanism)
    recipe = inside.recipe
    fit, datasets = recipe.fit_settings(None), recipe.synthesis.datasets
    ready = ready_outcome(
        inside.publication, inside.narrowed, inside.model, inside.mechanism, datasets, fit,
        in_place=inside.in_place,
    )  # fmt: skip
    return ready.rehearsed


def _cost(inside: Inside, rehearsed: float | None) -> tuple[tuple[float, float], float]:
    """((least, most) seconds, bytes), roughly; `rehearsed` are the seconds of all fits."""
    keys, survey, model = inside.recipe.synthesis, inside.narrowed, inside.model
    values = survey.n * len(survey.columns) * 8.0
    size = BASE_BYTES + values * (keys.datasets + 3)
    if isinstance(model, FileModel):
        about, size = whole_file_cost(survey.n, len(survey.columns), keys.datasets)
        return (about / WITHIN, about * WITHIN), size
    if not isinstance(model, OutcomeModel):
        more = 3e-6 * survey.n * len(model.sensitive) * keys.datasets
        return (BASE_SECONDS + more, 2 * BASE_SECONDS + 10 * more), size
    if rehearsed is not None:
        about = BASE_SECONDS + rehearsed
        return (about / WITHIN, about * WITHIN), size
    from understudy.models.gaussian import GaussianModel  # JAX, which whole files do not need

    fits, model = inside.mechanism.fits, model.for_survey(survey)
    # a stated epsilon of posterior draws needs clipped contributions, and these need gradients
    clipped = inside.mechanism.claims in ("formal", "local")
    if fits == 0 or (isinstance(model, GaussianModel) and not clipped):
        return (BASE_SECONDS, 2 * BASE_SECONDS + fits), size
    iterations = keys.draws + keys.chains * keys.warmup
    once = _gradient_seconds(model, inside) * iterations / min(keys.chains, 2)
    hard = 2 * BASE_SECONDS + fits * once * STEPS[1] * LONGER
    return (BASE_SECONDS + once * STEPS[0], hard), size


def whole_file_cost(records: int, columns: int, datasets: int) -> tuple[float, float]:
    """Seconds and bytes of a whole file: fits and reports by the columns, records by their values;
    of a large file only a few numbers a record are in memory, and a block of records."""
    seconds = BASE_SECONDS + A_COLUMN * columns + A_VALUE * records * columns * datasets
    held = records if records * columns <= IN_MEMORY else BLOCK
    return seconds, BASE_BYTES + A_RECORD * records + COPIES * 8.0 * held * columns


def _gradient_seconds(model: OutcomeModel, inside: Inside) -> float:
    """One gradient of the sum of record log-likelihoods at a middling point."""
    import jax

    from understudy.models.density import density_of

    survey = inside.narrowed
    if inside.recipe.synthesis.missing != "refuse":
        survey = without_missing(survey, inside.recipe.model.sensitive)[0]
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
    return f"Between {_duration(least)} and {_duration(most)}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.0f} hours"
