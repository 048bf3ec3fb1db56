"""The sections of a recipe: every key with its type and meaning.

The reference of release.toml (docs/recipe.md) and the checks of a recipe are read off these
classes, and off those of the models and mechanisms, which have further keys of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Interval

from understudy.report.verdict import Fitness
from understudy.survey.design import Design
from understudy.survey.engine_setting import Engine
from understudy.survey.file_format import always_released, endings_read, formats, listed

# Formats that a release may be written in, beside parquet.
RELEASED = [f.written[0] for f in formats() if f.written and f is not always_released()]


@dataclass(frozen=True)
class Data:
    """[data]"""

    path: Annotated[
        Path | None,
        f"The confidential file: {listed(endings_read())}; or a folder of Parquet files.",
    ] = None
    table: Annotated[
        str | None, "In the place of a path: a table of Spark's catalogue, such as `surveys.sdr`."
    ] = None
    format: Annotated[str | None, "Its format, if the ending does not show it: `mine.py:Mine`."] = (
        None
    )
    codebook: Annotated[Path | None, "The codebook; drafted from the file when it is left out."] = (
        None
    )
    where: Annotated[str | None, "Only these records, such as `PINCP > 0`; the claim says so."] = (
        None
    )
    implicates: Annotated[
        str | None,
        "The column that numbers implicates: the first is synthesized, and tables of the "
        "confidential file combine all.",
    ] = None
    floats: Annotated[
        tuple[str, ...], "Whole-number columns to store as decimals, such as a weight."
    ] = ()


@dataclass(frozen=True)
class SynthesisKeys:
    """[synthesis]; the model's own keys stand beside these."""

    model: Annotated[str, "Name of a model, or `file.py:function` for your own."]
    sensitive: Annotated[
        tuple[str, ...], "The columns that are synthesized; a WholeFile takes all by default."
    ] = ()
    predictors: Annotated[
        str | None,
        "A formula over public columns, such as `field + gender`, or with a spline: "
        "`bs(age, knots=[30, 50])`.",
    ] = None
    datasets: Annotated[int, "Number of synthetic data sets.", Interval(ge=1, le=1_000)] = 1
    seed: Annotated[int | None, "Not used: a release draws its seed. Take it out."] = None
    publish: Annotated[tuple[str, ...], "Further public columns for the synthetic files."] = ()
    missing: Annotated[
        Literal["refuse", "drop", "model", "level"],
        "Sensitive values that are missing: refuse, drop or model; level for whole rows.",
    ] = "refuse"
    diagnostics: Annotated[
        Literal["refuse", "report"], "Chains that do not agree: refuse, or report (kind risk only)."
    ] = "refuse"
    draws: Annotated[int, "Posterior draws over all chains.", Interval(ge=1, le=10_000_000)] = 2000
    chains: Annotated[
        int,
        "Chains of the sampler; with an epsilon one for each data set, up to 8.",
        Interval(ge=1, le=1_000),
    ] = 4
    warmup: Annotated[int, "Warm-up iterations of each chain.", Interval(ge=1, le=1_000_000)] = 500
    target_acceptance: Annotated[float, "Acceptance rate the sampler aims at."] = 0.8


@dataclass(frozen=True)
class PrivacyKeys:
    """[privacy]; the mechanism's own keys stand beside it."""

    mechanism: Annotated[str, "Name of a mechanism, or `file.py:Class` for your own."]


@dataclass(frozen=True)
class GivenKeys:
    """[[given]]; the model's own keys stand beside these."""

    model: Annotated[str, "Name of a model, or `file.py:function` for your own."]
    sensitive: Annotated[tuple[str, ...], "The columns that are synthesized."]
    privacy: Annotated[Mapping[str, Any], "The regression's own mechanism."]
    predictors: Annotated[
        str | None,
        "A formula over public columns, such as `field + gender`, or with a spline: "
        "`bs(age, knots=[30, 50])`.",
    ] = None


@dataclass(frozen=True)
class Tables:
    """[tables]"""

    statistics: Annotated[tuple[str, ...], 'Such as "count", "mean(salary)".']
    by: Annotated[tuple[str, ...], "Classifying columns."] = ()
    margins: Annotated[bool, "Whether margins are shown."] = True
    correct: Annotated[
        float | None,
        "Epsilon for correcting the table by noisy sums of the records' influences; it is added to "
        "that of [privacy].",
    ] = None
    correct_delta: Annotated[
        float, "Beside `correct`: 0 is Laplace noise, above 0 Gaussian noise (zCDP)."
    ] = 0.0


@dataclass(frozen=True)
class Risk:
    """[risk]"""

    known: Annotated[
        tuple[str, ...] | tuple[tuple[str, ...], ...],
        "Columns that an intruder knows: a list, or several lists.",
    ]
    radius: Annotated[float, "Values within this relative distance count as close."] = 0.2
    threshold: Annotated[float, "Risks above it are counted."] = 0.5
    measure: Annotated[str, "Name of a risk measure, or `mine.py:Mine`."] = "identification"

    @property
    def known_sets(self) -> tuple[tuple[str, ...], ...]:
        """Several sets of known columns, whichever way they were written."""
        sets = [(names,) if isinstance(names, str) else names for names in self.known]
        several = all(not isinstance(names, str) for names in self.known)
        return tuple(sets) if several else (tuple(name for names in sets for name in names),)


@dataclass(frozen=True)
class KeptKeys:
    """[kept]"""

    unique: Annotated[
        float,
        "Share of records that may be alone in their combination of kept columns.",
        Interval(ge=0, le=1),
    ] = 0.1
    accept: Annotated[str, "Why more of them are accepted; a reason for the review board."] = ""


@dataclass(frozen=True)
class Utility:
    """[utility]"""

    regression: Annotated[str | None, "A formula to compare, such as `log(salary) ~ gender`."] = (
        None
    )


@dataclass(frozen=True)
class Output:
    """[output]"""

    folder: Annotated[
        Path | None, "Where the bundle goes; the recipe's own name when left out."
    ] = None
    title: Annotated[str, "Title of the release; the codebook's when left out."] = ""
    formats: Annotated[
        tuple[str, ...], f"{listed(RELEASED)} beside parquet, or `mine.py:Mine`."
    ] = ()


@dataclass(frozen=True)
class LedgerKeys:
    """[ledger]"""

    place: Annotated[str, "The ledger's file, or a postgresql:// address."]
    cap: Annotated[str, 'The most epsilon that may ever be spent on these people, such as "10".']
    population: Annotated[str, "Whose records these are; the release's title when left out."] = ""
    delta: Annotated[str, 'The cap is (cap, delta), and releases compose by zCDP; "1e-9".'] = ""
    own_delta: Annotated[str, "Beside delta: for deltas that releases carry themselves."] = ""
    unit: Annotated[str, "What the cap protects: a record, or the codebook's unit."] = "record"
    records_per_unit: Annotated[
        int,
        "The most records of a unit, for claims about one record.",
        Interval(ge=1, le=1_000_000),
    ] = 1
    relation: Annotated[
        Literal["replace", "add-remove"], "Which neighbouring databases the cap speaks of."
    ] = "replace"
    head: Annotated[Path | None, "The file with the head of its chain, kept elsewhere."] = None
    witnesses: Annotated[
        tuple[str, ...], "Further places of heads: files, postgresql:// or https:// addresses."
    ] = ()
    head_key: Annotated[Path | None, "The private key that signs heads."] = None


SECTIONS: dict[str, type] = {
    "data": Data,
    "engine": Engine,
    "design": Design,
    "synthesis": SynthesisKeys,
    "privacy": PrivacyKeys,
    "tables": Tables,
    "risk": Risk,
    "kept": KeptKeys,
    "utility": Utility,
    "fitness": Fitness,
    "output": Output,
    "ledger": LedgerKeys,
}
REQUIRED = ("data", "synthesis", "privacy")
