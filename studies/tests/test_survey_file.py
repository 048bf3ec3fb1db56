"""A public use file by its mapping: a simulated one of the same layout comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import understudy as us
from understudy_studies.censoring.mathematicians import (
    AGES,
    mathematicians,
    published_mathematicians,
)
from understudy_studies.private_tables.application import application_survey, published_survey

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
MAPPINGS = {
    block.partition(":")[0].removeprefix("# "): block
    for block in (part.partition("```")[0] for part in README.split("```toml\n")[1:])
}
FIELD = {number: 10 * number for number in range(1, 9)}
GENDER = {"Female": 1, "Male": 2}
AGE = dict(zip(AGES, range(25, 70, 5), strict=True))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, tuple[Path, Path, us.Survey]]:
    """The two extracts in the layout of the README, with records that the mapping leaves out."""
    doctorates, mathematics = application_survey(1, 400), mathematicians(300, 1)
    codes: dict[str, dict[str, Any]] = {
        "sdr-tables.toml": {"FIELD": pl.col("field").replace_strict(FIELD), "WEIGHT": "weight",
                            "AGEGROUP": pl.lit(40), "EMPLOYED": pl.lit(1)},
        "sdr-mathematics.toml": {"AGEGROUP": pl.col("age").replace_strict(AGE), "WEEKS": "weeks",
                                 "FIELD": pl.lit(20), "SECTOR": pl.lit(1)},
    }  # fmt: skip
    made = {}
    for name, survey in zip(codes, (doctorates, mathematics), strict=True):
        extract = survey.frame().select(
            GENDER=pl.col("gender").replace_strict(GENDER), SALARY="salary", **codes[name]
        )
        out = extract[:2].with_columns(SALARY=pl.Series([9999998.0, 9999999.0]))
        if name == "sdr-tables.toml":
            younger, idle = pl.lit(35), pl.lit(0)
            out = pl.concat(
                [
                    out,
                    extract[2:3].with_columns(younger.alias("AGEGROUP").cast(pl.Int32)),
                    extract[3:4].with_columns(idle.alias("EMPLOYED").cast(pl.Int32)),
                ]
            )
        path, mapping = tmp_path / f"{name}.csv", tmp_path / name
        pl.concat([out, extract]).write_csv(path)
        mapping.write_text(MAPPINGS[name], encoding="utf-8")
        made[name] = (path, mapping, survey)
    return made


def test_the_application_of_private_tables_takes_the_file(files: dict[str, Any]) -> None:
    path, mapping, survey = files["sdr-tables.toml"]
    read = published_survey(path, mapping)
    assert read.design == survey.design
    expected = survey.frame(["field", "gender", "salary", "weight"])
    ours = read.frame(["field", "gender", "salary", "weight"])
    assert ours["gender"].to_list() == expected["gender"].to_list()
    assert ours["field"].to_list() == expected["field"].to_list()
    assert (ours["salary"] - expected["salary"]).abs().max() < 1e-6
    sizes = expected.group_by("field").agg(pl.col("weight").sum())
    assert read.codebook.population_size == pytest.approx(expected["weight"].sum())
    for field, size in sizes.iter_rows():
        assert read.codebook.population_by["field"][field] == pytest.approx(size)
    us.FBS("salary", "C(field) + gender").for_survey(read).prepare(read)


def test_the_application_of_censoring_takes_the_file(files: dict[str, Any]) -> None:
    path, mapping, survey = files["sdr-mathematics.toml"]
    read = published_mathematicians(path, mapping)
    columns = ["gender", "age", "weeks", "salary"]
    assert read.frame(columns).rows() == survey.frame(columns).rows()
    assert read.codebook["age"].levels == AGES
    assert read.codebook["salary"].bounds == (0.0, 500_000.0)
    us.BetaRegression("salary", "gender + age + weeks").for_survey(read).prepare(read)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('column = "WEIGHT"', 'column = "WT"', "no column `WT`"),
        ("2 = ", "3 = ", r"`GENDER` has the value 2.*\[gender\]"),
        ("[weight]", "[wieght]", r"must name a column for \[weight\]"),
        ("[keep]", "[kept]", r"has a part \[kept\]"),
        ("AGEGROUP = [40]", "AGEGROUP = [90]", "keeps no record"),
        ('10 = "1"', '10 = "9"', "fields 1 to 8"),
        ("[field]", "[field", "cannot be read as TOML"),
    ],
)
def test_a_wrong_mapping_is_refused(files: dict[str, Any], old: str, new: str, reason: str) -> None:
    path, mapping, _ = files["sdr-tables.toml"]
    mapping.write_text(MAPPINGS["sdr-tables.toml"].replace(old, new), encoding="utf-8")
    with pytest.raises(us.Refused, match=reason):
        published_survey(path, mapping)


def test_data_without_a_mapping_is_refused(files: dict[str, Any]) -> None:
    with pytest.raises(us.Refused, match="`--data` needs `--columns`"):
        published_survey(files["sdr-tables.toml"][0], None)
