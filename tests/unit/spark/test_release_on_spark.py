"""A release whose recipe says kind = "spark": whole, the same table, and no column comes here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import salaries_in_place
from people_in_folders import TEXT, people, write_folder

import understudy as us
from understudy.errors import Refused
from understudy.release import confidential_file
from understudy.release.recipe import read_recipe
from understudy.survey import read

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("outside_here"),
]

RECIPE = """\
[data]
path = "people"
codebook = "codebook.toml"
where = "age > 10"

[engine]
kind = "spark"

[design]
weight = "w"
strata = "h"
psu = "psu"

[synthesis]
model = "WholeFile"
datasets = 2

[privacy]
mechanism = "Marginals"
epsilon = 20
clusters = 0.1

[tables]
statistics = ["count", "mean(income)"]
by = ["year"]
correct = 5

[ledger]
place = "ledger.db"
cap = "100"
relation = "add-remove"
"""
ROWS = (
    RECIPE.replace('model = "WholeFile"', 'model = "Multinomial"\nsensitive = ["sex", "year"]')
    .replace("datasets = 2", 'missing = "level"')
    .replace("clusters = 0.1\n", "")
    .replace('"mean(income)"', "'proportion(sex == \"f\")'")
    .replace("correct = 5\n", "")
)
SEEN = 300  # records of the sample that the evidence looks at, about


@pytest.fixture
def recipe(tmp_path: Path, spark_session: Any) -> Path:  # noqa: ARG001
    write_folder(people(), tmp_path / "people")
    (tmp_path / "codebook.toml").write_text(TEXT)
    (tmp_path / "release.toml").write_text(RECIPE)
    return tmp_path / "release.toml"


@contextmanager
def arrivals() -> Iterator[list[tuple[int, frozenset[str]]]]:
    """Everything that comes from Spark to this process: the number of its rows, and its columns."""
    from pyspark.sql.classic.dataframe import DataFrame

    seen: list[tuple[int, frozenset[str]]] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("toPandas", "toArrow", "collect"):
            original = getattr(DataFrame, name)

            def heard(self: Any, *arguments: Any, taken: Any = original, **named: Any) -> Any:
                came = taken(self, *arguments, **named)
                seen.append((len(came), frozenset(self.columns)))
                return came

            patch.setattr(DataFrame, name, heard)
        for name in ("toLocalIterator", "take", "tail", "foreach"):
            patch.setattr(DataFrame, name, None)
        yield seen


@pytest.mark.any_noise
@pytest.mark.parametrize(
    "model", [pytest.param("WholeFile", marks=pytest.mark.slow), "Multinomial"]
)
def test_a_release_has_the_same_table_and_no_column_comes_here(
    model: str, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = RECIPE if model == "WholeFile" else ROWS
    recipe.write_text(text)
    monkeypatch.setattr(confidential_file, "SAMPLED", SEEN)
    with arrivals() as seen:
        us.publish(recipe, tmp_path / "there", say=lambda _: None, accept="engines are tested")
    counts = frozenset({"cell", "sum(records)"})  # of many tables one after another
    records = [rows for rows, columns in seen if columns != counts]
    assert max(records) < 1.5 * SEEN
    samples = 2 if model == "WholeFile" else 1  # for the evidence and the attacks
    assert sum(rows > SEEN / 2 for rows in records) == samples
    there = json.loads((tmp_path / "there" / "evidence.json").read_text())
    assert there["records_confidential"] == people().filter(pl.col("age") > 10).height
    assert abs(there["records_sampled"] - SEEN) < 100
    assert any("a random sample of" in sentence for sentence in there["summary"])

    recipe.write_text(text.replace('kind = "spark"', 'kind = "duckdb"').replace("ledger.db", "l"))
    us.publish(recipe, tmp_path / "here", say=lambda _: None, accept="engines are tested")
    here = json.loads((tmp_path / "here" / "evidence.json").read_text())
    cells = [document["table"]["cells"] for document in (there, here)]
    assert len(cells[0]) == len(cells[1]) > 3
    for ours, expected in zip(*cells, strict=True):
        assert ours["cell"] == expected["cell"]
        for key in ("estimate", "se", "lower", "upper"):
            assert ours["confidential"][key] == pytest.approx(
                expected["confidential"][key], rel=1e-9
            )
    claims = [us.open_release(tmp_path / side).claim for side in ("there", "here")]
    assert claims[0] == claims[1]


@pytest.mark.slow  # fits and files on Spark: test_fit_on_spark.py; the road of a release: DuckDB's
def test_fbs_is_released_from_records_that_stay_on_spark(
    tmp_path: Path,
    spark_session: Any,  # noqa: ARG001
) -> None:
    """The claim and the public rows of the release from a disk; public columns alone come here."""
    salaries_in_place.write_survey_and_recipe(tmp_path)
    recipe = tmp_path / "release.toml"
    text = recipe.read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "IN_MEMORY", 100)
        us.publish(recipe, tmp_path / "disk", say=lambda _: None)
    recipe.write_text(text + '\n[engine]\nkind = "spark"\n')
    us.publish(recipe, tmp_path / "spark", say=lambda _: None)
    here, there = (us.open_release(tmp_path / side) for side in ("disk", "spark"))
    assert there.claim.conditions == here.claim.conditions
    assert there.claim.epsilon == pytest.approx(here.claim.epsilon, rel=0.1)  # other seeds
    for ours, expected in zip(there, here, strict=True):
        frames = [each.frame() for each in (ours, expected)]
        assert frames[0].select("group", "age").equals(frames[1].select("group", "age"))
        means = [frame["salary"].log().mean() for frame in frames]
        assert means[0] == pytest.approx(means[1], abs=0.1)
    document = json.loads((tmp_path / "spark" / "evidence.json").read_text())
    assert any("The records are on Spark" in sentence for sentence in document["summary"])


def test_what_needs_records_is_refused_before_anything_is_read(recipe: Path) -> None:
    text = RECIPE.replace(
        'model = "WholeFile"', 'model = "FBS"\npredictors = "sex"\nsensitive = "income"'
    )
    text = text.replace('mechanism = "Marginals"', 'mechanism = "Weighted"')
    text = text.replace('"sex"\n', '"sex"\npsu_intercepts = true\n')
    recipe.write_text(text.replace("clusters = 0.1\n", ""))
    with pytest.raises(Refused, match="FBS with these settings needs every record in memory"):
        read_recipe(recipe)
