"""A run whose driver has 512 MB and may receive 8 MB at a time: no column of the file passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 2_000_000  # a column of decimals is 16 MB
RUN = """
import resource, sys
from pathlib import Path
from conftest import JAVA, MASTER, own_home
import os
os.environ["SPARK_HOME"] = str(own_home(Path(sys.argv[2])))
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master(MASTER)
    .config("spark.driver.memory", "512m").config("spark.driver.maxResultSize", "8m")
    .config("spark.executor.memory", "768m").config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.extraJavaOptions", JAVA).config("spark.executor.extraJavaOptions", JAVA)
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
import understudy as us
from people_in_folders import BOOK, TAYLOR
from understudy.ledger.fingerprint import identify
from understudy.mechanisms.whole_file.file_counts import FileCounts
survey = us.read_survey(sys.argv[1], TAYLOR, BOOK, engine=us.Engine("spark"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
identity, _ = identify(survey.untyped, survey.raw)
table = us.tabulate(survey, ["count", "mean(income)"], by="year", margins=True)
median = us.tabulate(survey, "quantile(income, 0.5)")
noisy = FileCounts(us.WholeFile().for_survey(survey), survey, 7).measured("chosen", 1, None)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(made,) = us.synthesize(survey, us.WholeFile(), us.Unweighted(), seed=7).datasets
drawn = us.tabulate(made, "count")["estimate"][0]
last = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    survey.frame(["w"])
    passed = "a column passed"
except Exception as error:
    passed = type(error).__name__
heap = session.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()
print("done", survey.n, noisy.records, len(table), len(median), passed, heap >> 20,
      (after - before) >> 10, made.on_cluster, round(drawn / 15.5 / survey.n, 1),
      (last - after) >> 10, flush=True)
"""


def test_no_column_passes_a_driver_of_512_megabytes(tmp_path: Path) -> None:
    from people_in_folders import people, write_folder

    folder = write_folder(people(RECORDS), tmp_path / "people")
    (tmp_path / "home").mkdir()
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{RUN}", str(folder),
         str(tmp_path / "home")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    words = done.stdout.split()
    assert words[:5] == ["done", str(RECORDS), str(RECORDS), "8", "1"], done.stderr[-2000:]
    assert words[5] != "a"  # the limit is felt: a column does not pass
    heap, grown = (int(word) for word in words[6:8])
    assert heap <= 512
    assert grown < 256  # megabytes of this process; a file of 2,000,000 records has 400
    assert words[8:10] == ["True", "1.0"]  # a file of as many records, of mean weight 15.5
    assert int(words[10]) < 256  # the pool of cells that it is drawn from
    print(done.stdout)
