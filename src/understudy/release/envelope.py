"""The envelope: what leaves the inside of a release, and beside it what stays there.

    envelope/N.parquet    claim.json    design.json    draws.json (where the claim covers them)
    kept/N.parquet (the same records in the order of the confidential file)  fit.json  records.npz

The records of the envelope are sorted by their published values, so that their order says nothing.
Later stages read these files and nothing else of the fit, so that a resumed run and an
uninterrupted one see the same things.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.claim import Claim
from understudy.errors import Refused
from understudy.publication import without_drafted
from understudy.report.material import ChainQuality, Records
from understudy.survey.design import Design, Replicates
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey
from understudy.synthesis import Synthesis

ENVELOPE, KEPT = "envelope", "kept"


@dataclass(frozen=True, eq=False)
class Envelope:
    """The mechanism's output and its claim; every public byte is made from this, the recipe's
    declarations and the columns that were public before."""

    folder: Path
    datasets: list[Survey]  # as they are published
    claim: Claim
    draws: bool  # whether draws.json is there


def seal(result: Synthesis, folder: Path) -> None:
    """Write the envelope, and beside it what stays inside."""
    if result.for_studies:
        raise Refused(
            "This result was made for studies: its seed could be guessed. Leave out `seed`, and "
            "one is drawn from the operating system."
        )
    (folder / ENVELOPE).mkdir()
    (folder / KEPT).mkdir()
    for number, dataset in enumerate(result.datasets, start=1):
        write_survey(dataset, folder / KEPT / f"{number}.parquet")
        write_survey(_published(dataset), folder / ENVELOPE / f"{number}.parquet")
    _write(folder / ENVELOPE / "claim.json", result.claim.to_json())
    _write(folder / ENVELOPE / "design.json", json.dumps(design_to(result.datasets[0].design)))
    if result.claim.kind != "risk" and result.draws:
        text = json.dumps({"draws": [_plain(draw) for draw in result.draws]}, allow_nan=False)
        _write(folder / ENVELOPE / "draws.json", text)
    _keep(result, folder / KEPT)


def open_envelope(folder: Path) -> Envelope:
    """The envelope of a finished stage."""
    envelope = folder / ENVELOPE
    claim = Claim.from_json((envelope / "claim.json").read_text(encoding="utf-8"))
    return Envelope(
        envelope, _datasets(envelope, envelope), claim, (envelope / "draws.json").exists()
    )


def kept_inside(folder: Path) -> dict[str, Any]:
    """What stays inside, under the names that the internal report's material has for it."""
    kept = folder / KEPT
    fit = json.loads((kept / "fit.json").read_text(encoding="utf-8"))
    arrays = np.load(kept / "records.npz")
    records = chains = None
    if "loglik" in arrays:
        records = Records(
            arrays["loglik"],
            arrays["contribution"],
            arrays["weight"],
            float(arrays["limit"]),
            fit["censored"],
        )
    if "rhat" in arrays:
        chains = ChainQuality(
            tuple(fit["coordinates"]),
            arrays["rhat"],
            arrays["ess_bulk"],
            arrays["ess_tail"],
            fit["divergences"],
            fit["chains"],
            fit["draws"],
        )
    return {
        "datasets": _datasets(kept, folder / ENVELOPE),
        "records": records,
        "chains": chains,
        "dropped": fit["dropped"],
        "rows_correspond": fit["rows_correspond"],
    }


def design_to(design: Design) -> dict[str, Any]:
    """A design as JSON values."""
    return {name: value for name, value in asdict(design).items() if value is not None}


def design_from(values: dict[str, Any]) -> Design:
    """The design that `design_to` wrote."""
    replicates = values.pop("replicates", None)
    return Design(**values, replicates=None if replicates is None else Replicates(**replicates))


def _datasets(folder: Path, envelope: Path) -> list[Survey]:
    design = design_from(json.loads((envelope / "design.json").read_text(encoding="utf-8")))
    names = sorted((path.name for path in folder.glob("*.parquet")), key=lambda n: int(n[:-8]))
    return [read_survey(folder / name, design) for name in names]


def _published(dataset: Survey) -> Survey:
    """Sorted by content, and without facts of the codebook that were only drafted from records:
    they may stand for records that are not in the release."""
    codebook = without_drafted(dataset.codebook, dataset.codebook.columns)
    frame = dataset.raw.to_polars()
    return Survey(frame.sort(frame.columns), dataset.design, codebook)


def _keep(result: Synthesis, folder: Path) -> None:
    fit: dict[str, Any] = {
        "dropped": result.dropped,
        "rows_correspond": result.rows_correspond,
        "censored": result.censored,
    }
    arrays: dict[str, Any] = {"nothing": np.zeros(0)}
    if result.bounds is not None and result.posterior is not None:
        arrays["loglik"] = result.bounds.loglik
        arrays["contribution"] = result.bounds.contribution
        arrays["weight"] = result.record_weights
        arrays["limit"] = np.asarray(result.bounds.limit)
    diagnostics = result.diagnostics
    if diagnostics is not None:
        arrays |= {name: getattr(diagnostics, name) for name in ("rhat", "ess_bulk", "ess_tail")}
        fit |= {name: getattr(diagnostics, name) for name in ("divergences", "chains", "draws")}
        fit["coordinates"] = list(diagnostics.coordinates)
    np.savez(folder / "records.npz", **arrays)
    _write(folder / "fit.json", json.dumps(fit))


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")


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
        raise Refused("A released draw holds something that is not a number; it cannot be written.")
    return array.tolist()
