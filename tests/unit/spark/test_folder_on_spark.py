"""A folder of Parquet files is the same survey on Spark: its types, its identity, its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from killed_worker import executors, killing_once
from people_in_folders import BOOK, REPLICATED, TAYLOR, people, write_folder

import understudy as us
from understudy.cluster import spark_frame
from understudy.errors import Refused
from understudy.ledger.fingerprint import identify
from understudy.mechanisms.whole_file.file_counts import FileCounts
from understudy.survey.engine_setting import Engine
from understudy.tables import coded_on_spark
from understudy.tables.coded_records import coded_records
from understudy.tables.cross_table import categories_of, cross_tabulate

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

H = 3  # the stratum among the columns of a whole file
CALL: dict[str, Any] = {
    "statistics": [
        "count",
        "mean(income)",
        "quantile(income, 0.5)",
    ],
    "by": ["year"],
    "where": "age > 20",
    "margins": True,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(people(), tmp_path_factory.mktemp("folder") / "people")


@pytest.fixture(scope="module")
def both(folder: Path, spark_engine: Engine) -> tuple[us.Survey, us.Survey]:
    """The folder on Spark and here."""
    there = us.read_survey(folder, TAYLOR, BOOK, engine=spark_engine)
    return there, us.read_survey(folder, TAYLOR, BOOK)


def test_types_records_and_identity_are_the_same(both: tuple[us.Survey, us.Survey]) -> None:
    there, here = both
    assert there.on_cluster
    assert not here.on_cluster
    assert dict(there.raw.schema()) == dict(here.raw.schema())
    assert there.columns == here.columns
    assert there.n == here.n
    identity, _ = identify(there.untyped, there.raw)
    assert identity == identify(here.untyped, here.raw)[0]
    assert len(identity.records) == 32
    turned = us.Survey(here.frame().sample(fraction=1.0, shuffle=True, seed=1))
    assert identify(turned.raw, turned.raw)[0].fingerprint != identity.fingerprint  # -1 is null


@pytest.mark.parametrize(
    "design",
    [pytest.param(design, marks=pytest.mark.slow) for design in (TAYLOR, REPLICATED)],
    ids=["taylor", "replicates"],
)
def test_tables_agree(design: us.Design, both: tuple[us.Survey, us.Survey]) -> None:
    """Counts, means and quantiles with both kinds of variances, to 1e-9; for Taylor's see also
    test_tabulate_on_spark.py."""
    surveys = (us.Survey(survey.raw, design, BOOK) for survey in both)
    ours, expected = (us.tabulate(survey, **CALL) for survey in surveys)
    assert ours.select("year", "statistic").equals(expected.select("year", "statistic"))
    for column in ("estimate", "se", "df", "lower", "upper"):
        assert ours[column].to_list() == pytest.approx(
            expected[column].to_list(), rel=1e-9, nan_ok=True
        )
    assert expected["se"].drop_nulls().min() > 0


def test_a_table_of_the_catalogue_is_the_same_survey(
    both: tuple[us.Survey, us.Survey], spark_engine: Engine
) -> None:
    spark_frame(both[0].raw).createOrReplaceTempView("people_known")
    there = us.read_table("people_known", engine=spark_engine)
    assert there.columns == both[1].columns
    assert identify(there.raw, there.raw)[0].typed == identify(both[1].raw, both[1].raw)[0].typed
    with pytest.raises(Refused, match="catalogue has no table `nobody`"):
        us.read_table("nobody", engine=spark_engine)
    with pytest.raises(Refused, match="is read by Spark"):
        us.read_table("people_known", engine=Engine())


def test_what_spark_cannot_do_is_said(
    both: tuple[us.Survey, us.Survey], folder: Path, tmp_path: Path, spark_engine: Engine
) -> None:
    there = both[0]
    with pytest.raises(Refused, match="Multinomial, FBP, FBS or WholeFile under Marginals, Modips"):
        us.synthesize(there, us.Beta("income", bounds=(0, 1e6)), us.Weighted(epsilon=10))
    with pytest.raises(Refused, match="WholeFile with columns that are kept as they are needs"):
        us.synthesize(there, us.WholeFile(keep=["year"]), us.Marginals(epsilon=1))
    with pytest.raises(Refused, match="these are on Spark"):
        us.tabulate(there, "gini(income)")
    with pytest.raises(Refused, match="A Laplace table needs every record in memory"):
        us.laplace_table(there, "count", "year", 1.0)
    with pytest.raises(Refused, match="A regression needs every record"):
        us.regress(there, "income ~ age")
    (tmp_path / "people.csv").write_text("a\n1\n")
    with pytest.raises(Refused, match="Spark reads Parquet files, folders"):
        us.read_survey(tmp_path / "people.csv", engine=spark_engine)
    with pytest.raises(Refused, match=r"runs in this process at `local-cluster"):
        us.read_survey(folder, engine=Engine("spark", master="local[3]"))
    book = BOOK.with_column(us.Column("sex", type="categorical", levels=("f", "x")))
    with pytest.raises(Refused, match="Some values of `sex` are not among"):
        us.read_survey(folder, TAYLOR, book, engine=spark_engine)


@pytest.fixture(scope="module")
def counted(both: tuple[us.Survey, us.Survey]) -> tuple[Any, Any]:
    """The cells of all records, on Spark and here."""
    cells = us.WholeFile().for_survey(both[1]).cells(both[1])
    there, here = (coded_records(each, cells, None, None, ("h", "psu")) for each in both)
    return there, here


def test_a_whole_file_is_counted_alike(counted: tuple[Any, Any]) -> None:
    there, here = counted
    columns = range(len(here.sizes))
    tables = [*((j,) for j in columns), (0, 1), (2, 3), (1, 0, 4)]
    halved = [(np.arange(size) // 2).astype(np.int32) for size in here.sizes]
    of_psu = np.arange(here.clusters.stratum_of_psu.size) % 4
    for ours, theirs in (
        (there.count(tables), here.count(tables)),
        (there.coarse(halved).count(tables), here.coarse(halved).count(tables)),
        (
            there.count_merged([((1, 2), halved), ((0,), halved)]),
            here.count_merged([((1, 2), halved), ((0,), halved)]),
        ),
        (
            there.clusters.grouped(there.coarse(halved), of_psu, 4).count([(0, 2)]),
            here.clusters.grouped(here.coarse(halved), of_psu, 4).count([(0, 2)]),
        ),
        ([there.clusters.stratum_of_psu], [here.clusters.stratum_of_psu]),
        ([there.clusters.cells(there, H)], [here.clusters.cells(here, H)]),
    ):
        for table, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(table, expected)
    assert here.count([(0,)])[0].sum() == there.n == here.n


def test_a_pass_over_many_tables_is_made_in_parts(
    counted: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = counted
    monkeypatch.setattr(coded_on_spark, "AT_ONCE", 100)
    tables = [(0,), (1,), (2, 0), (0, 3)]
    for table, expected in zip(there.count(tables), here.count(tables), strict=True):
        np.testing.assert_array_equal(table, expected)


def test_rows_of_categories_are_counted_alike(both: tuple[us.Survey, us.Survey]) -> None:
    tables = [
        cross_tabulate(survey, categories_of(survey, ["sex", "year"], "level")) for survey in both
    ]
    np.testing.assert_array_equal(tables[0].codes, tables[1].codes)
    np.testing.assert_array_equal(tables[0].counts, tables[1].counts)


def test_a_worker_that_is_killed_changes_nothing(
    counted: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first task of a pass kills the executor that runs it, with what that had kept."""
    there, here = counted
    kill, count_blocks = killing_once(tmp_path / "killed"), coded_on_spark._count_blocks

    def killing(tables: Any, columns: Any, blocks: Iterator[pa.RecordBatch]) -> Any:
        kill()
        return count_blocks(tables, columns, blocks)

    monkeypatch.setattr(coded_on_spark, "_count_blocks", killing)
    tables, running = [(0, 1), (2,)], executors(there.frame.sparkSession)
    for table, expected in zip(there.count(tables), here.count(tables), strict=True):
        np.testing.assert_array_equal(table, expected)
    assert (tmp_path / "killed").exists()
    assert running - executors(there.frame.sparkSession)


@pytest.mark.slow
def test_the_tables_of_a_whole_file_are_the_same_without_noise(
    both: tuple[us.Survey, us.Survey],
) -> None:
    """Choice, coarsening, tables and misfit: all that is measured, by the same chance; that each
    table is the same is tested above."""
    made = []
    for survey in both:
        model = us.WholeFile().for_survey(survey)
        made.append(FileCounts(model, survey, 7).measured("chosen", 1, None))
    there, here = made
    assert there.measured == here.measured
    assert there.misfit == here.misfit
    for ours, expected in zip(there.sets[0].tables, here.sets[0].tables, strict=True):
        np.testing.assert_array_equal(ours, expected)
