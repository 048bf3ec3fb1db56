"""The first stage of a release: synthetic files, claim, draws, and what stays inside.

    N.parquet    claim.json    draws.json (where the claim covers them)    fit.json    records.npz
    in-order/N.parquet: the same records in the order of the confidential file, which stay inside

The records of N.parquet are sorted by their published values, so that their order says nothing.
Later stages read these files and nothing else of the fit, so that a resumed run and an
uninterrupted one see the same things.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.claim import Claim
from understudy.errors import Refused
from understudy.fitting.diagnostics import Diagnostics
from understudy.models.multinomial import Multinomial
from understudy.release.mixed import MixedSynthesis, synthesize_mixed
from understudy.release.prepare import Prepared
from understudy.release.spending import check_price
from understudy.report.material import Chains, Records
from understudy.survey.design import Design, Replicates
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey
from understudy.synthesis import IN_ORDER, Synthesis, synthesize

UNSEEDED = ("PerturbedHistogram", "Modips", "Marginals")  # their noise comes from OpenDP


@dataclass(frozen=True, eq=False)
class Stored:
    """What the first stage left on disk."""

    datasets: list[Survey]  # as they are published
    in_order: list[Survey]  # in the order of the confidential file
    claim: Claim
    draws: str | None  # the text of draws.json
    dropped: int
    rows_correspond: bool
    records: Records | None
    chains: Chains | None


def run_synthesis(prepared: Prepared, seed: int, folder: Path, progress: bool | None) -> None:
    """Fit, draw and write; refused when the sampler's diagnostics fail."""
    recipe = prepared.recipe
    fit: dict[str, Any] = {
        "draws": recipe.draws,
        "chains": recipe.chains,
        "warmup": recipe.warmup,
        "target_acceptance": recipe.target_acceptance,
    }
    result: Any
    if prepared.given:
        result = synthesize_mixed(
            prepared.narrowed,
            prepared.model,  # type: ignore[arg-type]
            prepared.mechanism,
            prepared.given,
            recipe.datasets,
            seed,
            progress=progress,
            **fit,
        )
    elif isinstance(prepared.model, Multinomial):
        result = synthesize(
            prepared.narrowed, prepared.model, prepared.mechanism, recipe.datasets, seed
        )
    else:
        missing: Any = recipe.missing
        diagnostics: Any = recipe.diagnostics
        result = synthesize(
            prepared.narrowed,
            prepared.model,
            prepared.mechanism,
            recipe.datasets,
            seed,
            missing=missing,
            diagnostics=diagnostics,
            progress=progress,
            **fit,
        )
    claim = _claim(prepared, result.claim)
    check_price(prepared, claim)
    (folder / "in-order").mkdir()
    for number, dataset in enumerate(result.datasets, start=1):
        write_survey(dataset, folder / "in-order" / f"{number}.parquet")
        write_survey(_published(dataset), folder / f"{number}.parquet")
    (folder / "claim.json").write_text(claim.to_json() + "\n", encoding="utf-8")
    draws = getattr(result, "draws", [])
    if claim.kind != "risk" and draws:
        text = json.dumps({"draws": [_plain(draw) for draw in draws]}, allow_nan=False)
        (folder / "draws.json").write_text(text + "\n", encoding="utf-8")
    _write_fit(result, folder)


def stored(folder: Path) -> Stored:
    """The first stage, read back."""
    told = json.loads((folder / "fit.json").read_text(encoding="utf-8"))
    design = design_from(told["design"])
    names = sorted((path.name for path in folder.glob("*.parquet")), key=lambda n: int(n[:-8]))
    arrays = np.load(folder / "records.npz")
    records = chains = None
    if "loglik" in arrays:
        records = Records(
            arrays["loglik"],
            arrays["contribution"],
            arrays["weight"],
            float(arrays["limit"]),
            told["censored"],
        )
    if "rhat" in arrays:
        chains = Chains(
            tuple(told["coordinates"]),
            arrays["rhat"],
            arrays["ess_bulk"],
            arrays["ess_tail"],
            told["divergences"],
            told["chains"],
            told["draws"],
        )
    draws = folder / "draws.json"
    return Stored(
        [read_survey(folder / name, design) for name in names],
        [read_survey(folder / "in-order" / name, design) for name in names],
        Claim.from_json((folder / "claim.json").read_text(encoding="utf-8")),
        draws.read_text(encoding="utf-8") if draws.exists() else None,
        told["dropped"],
        told["rows_correspond"],
        records,
        chains,
    )


def design_to(design: Design) -> dict[str, Any]:
    """A design as JSON values."""
    return {name: value for name, value in asdict(design).items() if value is not None}


def design_from(told: dict[str, Any]) -> Design:
    """The design that `design_to` wrote."""
    replicates = told.pop("replicates", None)
    return Design(**told, replicates=None if replicates is None else Replicates(**replicates))


def _published(dataset: Survey) -> Survey:
    """Sorted by content, and without facts of the codebook that were only drafted from records:
    they may stand for records that are not in the release."""
    codebook = dataset.codebook
    for column in list(codebook):
        if column.drafted & {"levels", "bounds"}:
            codebook = codebook.with_column(
                replace(
                    column,
                    levels=None if "levels" in column.drafted else column.levels,
                    bounds=None if "bounds" in column.drafted else column.bounds,
                )
            )
    frame = dataset.raw.to_polars()
    return Survey(frame.sort(frame.columns), dataset.design, codebook)


def _claim(prepared: Prepared, claim: Claim) -> Claim:
    """Records are published in another order; a restriction of the file is a condition."""
    kept = tuple(one for one in claim.conditions if one != IN_ORDER)
    claim = replace(claim, conditions=kept)
    if prepared.recipe.where is None:
        return claim
    added = (
        f"Only records with `{prepared.recipe.where}` were used; which and how many they were is "
        "not covered"
    )
    return replace(claim, conditions=(*claim.conditions, added))


def _write_fit(result: Any, folder: Path) -> None:
    told: dict[str, Any] = {
        "design": design_to(result.datasets[0].design),
        "dropped": getattr(result, "dropped", 0),
        "rows_correspond": isinstance(result, Synthesis),
        "censored": 0,
    }
    arrays: dict[str, Any] = {"nothing": np.zeros(0)}
    fitted = result
    if isinstance(result, MixedSynthesis) and result.regressions:
        fitted = result.regressions[0]
    if isinstance(fitted, Synthesis) and isinstance(result, Synthesis) and fitted.posterior:
        arrays["loglik"] = fitted.bounds.loglik
        arrays["contribution"] = fitted.bounds.contribution
        arrays["weight"] = fitted.record_weights
        arrays["limit"] = np.asarray(fitted.bounds.limit)
        told["censored"] = fitted.censored
    found: Diagnostics | None = getattr(fitted, "diagnostics", None)
    if found is not None:
        arrays |= {name: getattr(found, name) for name in ("rhat", "ess_bulk", "ess_tail")}
        told |= {name: getattr(found, name) for name in ("divergences", "chains", "draws")}
        told["coordinates"] = list(found.coordinates)
    np.savez(folder / "records.npz", **arrays)
    (folder / "fit.json").write_text(json.dumps(told), encoding="utf-8")


def _plain(value: Any) -> Any:
    """Arrays and numbers of a draw as JSON values."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (str, int, float)) or value is None:
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise Refused("A released draw holds something that is no number; it cannot be written.")
    return array.tolist()
