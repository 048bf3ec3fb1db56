"""ACS person PUMS as report M prepares it (M §1, Table 3.1): 19 variables, recodes, completers.

Every step is counted. Where the report leaves a recode open, the choice is ours and is said here:

- OCC: the 14 groups are unions of the Census Bureau's major occupation groups.
- HHT is a household variable; it is read off the household's person records (RELP) when absent.
- VETSTAT follows from MIL: veteran, on active duty now, not a veteran.
- The report's step 4 removes "non-positive" self-employment income and loses 198 of 1.9 million
  records; only negative amounts can be meant. Its step 5 keeps persons of 18 and over, although
  it is printed the other way round.
- Incomes must add up to the total: wages, self-employment, retirement, social security and other
  income. Records with interest, public assistance or supplemental security income are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from understudy.errors import Refused, UnknownName
from understudy.survey.acs_pums_codes import BIRTHPLACES, LABELS, OCCUPATIONS
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey, as_ibis

__public__ = ("NEEDED as ACS_COLUMNS", "VARIABLES as ACS_VARIABLES", "acs_codebook", "prepare_acs")

NEEDED = (
    *("SERIALNO", "RELP", "AGEP", "SEX", "CIT", "HISP", "RAC1P", "MAR", "MIL", "OCCP", "POBP"),
    *("SCHL", "HICOV", "POVPIP", "WAGP", "SEMP", "RETP", "SSP", "OIP", "PINCP", "ADJINC"),
)
INCOMES = ("WAGP", "SEMP", "RETP", "SSP", "OIP")
VARIABLES = tuple(LABELS)  # the 18 of M Table 3.1, without ATI, in its order

# What no record can be: birthplace and citizenship, service and veteran status (public facts).
IMPOSSIBLE = (
    "CIT == 1 and POB != 1",
    "POB == 1 and CIT != 1",
    "CIT == 2 and POB != 2",
    "MIL == 2 and VETSTAT != 1",
    "MIL == 1 and VETSTAT != 2",
    "MIL in (3, 4) and VETSTAT != 3",
)


@dataclass(frozen=True)
class Step:
    """One step of the preparation, and how many records were left after it."""

    what: str
    records: int


@dataclass(frozen=True, eq=False)
class AcsPums:
    """The prepared survey (18 categorical columns, codebook declared) and its counted steps."""

    survey: Survey
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        width = max(len(step.what) for step in self.steps)
        return "\n".join(f"{step.what:<{width}}  {step.records:>11,}" for step in self.steps)


def prepare_acs(person: Any) -> AcsPums:
    """M's file from ACS person records: a frame, an Arrow or Ibis table, or a Survey."""
    table = person.raw if isinstance(person, Survey) else as_ibis(person)
    for name in NEEDED:
        if name not in table.columns:
            raise UnknownName("column of the ACS person file", name, table.columns)
    extra = ["HHT"] if "HHT" in table.columns else []
    frame = table.select([*NEEDED, *extra]).to_polars()
    steps = [Step("person records", frame.height)]

    def step(what: str, kept: pl.DataFrame) -> pl.DataFrame:
        if kept.height == 0:
            raise Refused(f"No record is left after the step `{what}`; is this an ACS person file?")
        steps.append(Step(what, kept.height))
        return kept

    frame = frame if extra else frame.with_columns(household_type(frame))
    used = [name for name in NEEDED if name not in ("SERIALNO", "RELP")]
    frame = step("complete in the 19 variables", frame.drop_nulls([*used, "HHT"]))
    total = pl.sum_horizontal([pl.col(name).cast(pl.Float64) for name in INCOMES])
    frame = step("incomes add up to the total", frame.filter(total == pl.col("PINCP")))
    frame = step("self-employment income not negative", frame.filter(pl.col("SEMP") >= 0))
    frame = step("18 years or older", frame.filter(pl.col("AGEP") >= 18))
    return AcsPums(Survey(recode(frame), Design(), acs_codebook()), tuple(steps))


def recode(frame: pl.DataFrame) -> pl.DataFrame:
    """The 18 categorical variables of M Table 3.1 from the PUMS columns."""
    wage = pl.col("WAGP").cast(pl.Float64) * pl.col("ADJINC").cast(pl.Float64) / 1e6
    columns = {
        "CIT": pl.col("CIT"),
        "HIS": _race(),
        "MAR": pl.col("MAR"),
        "MIL": pl.col("MIL"),
        "OCC": _ranges(pl.col("OCCP").cast(pl.Int64), OCCUPATIONS),
        "OI": _some("OIP"),
        "POB": _listed("POBP", BIRTHPLACES),
        "RET": _some("RETP"),
        "SCHL": _steps(pl.col("SCHL"), (16, 18, 20, 21, 22)),
        "SEM": _some("SEMP"),
        "SEX": pl.col("SEX"),
        "SS": _some("SSP"),
        "AWAG": 1
        + (wage > 0).cast(pl.Int64)
        + (wage > 60_000).cast(pl.Int64)
        + (wage > 250_000).cast(pl.Int64),
        "HICOV": pl.col("HICOV"),
        "POV": pl.col("POVPIP") < 100,
        "CAGE": _steps(pl.col("AGEP"), tuple(range(25, 70, 5))),
        "VETSTAT": pl.col("MIL").replace_strict({1: 2, 2: 1, 3: 3, 4: 3}),
        "HHT": pl.col("HHT"),
    }
    return frame.select(
        *(columns[name].cast(pl.Int64).cast(pl.Int16).alias(name) for name in VARIABLES)
    )


def household_type(frame: pl.DataFrame) -> pl.Series:
    """HHT from the person records of a household, by relationship to its first person (RELP).

    1 married couple; 2, 3 other family with a male, female first person; 4, 6 a man, a woman
    alone; 5, 7 the same with others who are not relatives. Missing in group quarters.
    """
    relation = pl.col("RELP").cast(pl.Int64)
    households = frame.group_by("SERIALNO").agg(
        (relation == 0).any().alias("home"),
        (relation == 1).any().alias("spouse"),
        relation.is_between(1, 10).any().alias("relative"),
        pl.len().alias("persons"),
        pl.col("SEX").filter(relation == 0).first().alias("first_sex"),
    )
    woman = (pl.col("first_sex") == 2).cast(pl.Int64)
    kind = (
        pl.when(~pl.col("home"))
        .then(None)
        .when(pl.col("spouse"))
        .then(1)
        .when(pl.col("relative"))
        .then(2 + woman)
        .otherwise(4 + 2 * woman + (pl.col("persons") > 1).cast(pl.Int64))
    )
    typed = households.select("SERIALNO", kind.alias("HHT"))
    return frame.select("SERIALNO").join(typed, on="SERIALNO", how="left", maintain_order="left")[
        "HHT"
    ]


def acs_codebook() -> Codebook:
    """Levels and labels of the 18 variables, declared, with the impossible combinations."""
    columns = {
        name: Column(
            name,
            role="sensitive",
            type="categorical",
            label=label,
            levels=tuple(levels),
            value_labels={code: text for code, text in levels.items()},  # noqa: C416
        )
        for name, (label, levels) in LABELS.items()
    }
    return Codebook(columns, "ACS person PUMS as in report M, Table 3.1", impossible=IMPOSSIBLE)


def _race() -> pl.Expr:
    """HISP and RAC1P -> M's six classes: Hispanic of any race, then race."""
    race = pl.col("RAC1P").replace_strict(
        {1: 1, 2: 2, 3: 3, 4: 3, 5: 3, 6: 4, 7: 4, 8: 6, 9: 6}, return_dtype=pl.Int64
    )
    return pl.when(pl.col("HISP") > 1).then(5).otherwise(race)


def _some(name: str) -> pl.Expr:
    return pl.col(name) != 0


def _steps(value: pl.Expr, starts: tuple[int, ...]) -> pl.Expr:
    """1 below the first start, 2 from it on, and so forth."""
    return 1 + pl.sum_horizontal([(value >= start).cast(pl.Int64) for start in starts])


def _ranges(value: pl.Expr, ranges: tuple[tuple[int, int, int], ...]) -> pl.Expr:
    """The class whose closed range (class, from, to) holds the code."""
    chosen = pl.lit(None, pl.Int64)
    for number, low, high in ranges:
        chosen = pl.when(value.is_between(low, high)).then(number).otherwise(chosen)
    return chosen


def _listed(name: str, classes: dict[int, tuple[int, ...]]) -> pl.Expr:
    """The class that lists the code; a code that none lists is not reported (the last class)."""
    code = {value: number for number, values in classes.items() for value in values}
    return pl.col(name).replace_strict(code, default=max(classes), return_dtype=pl.Int64)
