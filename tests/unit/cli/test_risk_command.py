"""`understudy risk` and `understudy utility`: files in, marked tables and figures out."""

from __future__ import annotations

import re
from glob import glob
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from understudy import Refused
from understudy.cli.risk import risk
from understudy.cli.utility import utility
from understudy.risk.identification import identification_risk

ROOT = Path(__file__).resolve().parents[3]
MARK = "internal: computed from confidential data"

app = typer.Typer()
app.command()(risk)
app.command()(utility)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    n = 120
    frame = pl.DataFrame(
        {
            "case": np.arange(n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.integers(1, 4, n),
            "income": np.round(rng.lognormal(10, 1, n)) * (rng.random(n) > 0.1),
        }
    )
    frame.write_parquet(tmp_path / "data.parquet")
    for number in range(2):
        noisy = frame.with_columns(income=pl.col("income") * np.exp(rng.normal(0, 0.2, n)))
        noisy.write_parquet(tmp_path / f"s{number}.parquet")
        noisy = frame.with_columns(income=pl.col("income") * np.exp(rng.normal(0, 0.2, n)))
        noisy.write_csv(tmp_path / f"b{number}.csv")
    return tmp_path


def run(*arguments):
    out = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert out.exit_code == 0, out.output
    return out.output


def test_risk_writes_marked_tables_and_figures(folder):
    paths = [folder / f"s{i}.parquet" for i in range(2)]
    baseline = [text for i in range(2) for text in ("--baseline", folder / f"b{i}.csv")]
    said = run(
        *("risk", folder / "data.parquet", *paths, *baseline),
        *("--known", "sex,region", "--known", "sex", "--target", "income"),
        *("--topcode", "0.06", "--rise", "0.1", "--out", folder / "out"),
    )
    assert MARK in " ".join(said.split())
    assert "Records correspond by order of rows" in said
    assert "records have `income` zero" in said
    profile = pl.read_csv(folder / "out" / "internal_profile.csv")
    assert set(profile["release"]) == {"Data", "Synthetic", "Baseline", "Topcoded"}
    assert profile["mark"].unique().to_list() == [MARK]
    frame = pl.read_parquet(folder / "data.parquet")
    files = [pl.read_parquet(path) for path in paths]
    by_hand = identification_risk(frame, files, known=["sex", "region"], target="income")
    row = profile.row(
        by_predicate=(pl.col("known") == "sex, region") & (pl.col("release") == "Synthetic"),
        named=True,
    )
    assert row["mean"] == pytest.approx(by_hand.mean())
    records = pl.read_csv(folder / "out" / "internal_records.csv")
    np.testing.assert_allclose(records["Synthetic, known sex, region"], by_hand)
    for name in ("risk", "whack_a_mole"):
        assert (folder / "out" / f"internal_{name}.svg").read_text().startswith("<?xml")
        assert (folder / "out" / f"internal_{name}.png").stat().st_size > 5000
    assert {p.name.split("_")[0] for p in (folder / "out").iterdir()} == {"internal"}


def test_the_example_of_the_page_works_and_sorted_files_are_refused_with_the_way_out(
    tmp_path, monkeypatch
):
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 80),
            "age": rng.integers(20, 60, 80),
            "region": rng.integers(1, 4, 80),
            "income": np.round(rng.lognormal(10, 1, 80)),
        }
    )
    frame.write_parquet(tmp_path / "ce.parquet")
    (tmp_path / "drawn").mkdir()
    drawn = frame.with_columns(income=pl.col("income") * 1.1)
    drawn.write_parquet(tmp_path / "drawn" / "1.parquet")
    page = " ".join((ROOT / "docs" / "commands.md").read_text(encoding="utf-8").split())
    example = re.search(r"Example: understudy (risk .*? --out risk)", page)[1].split()
    monkeypatch.chdir(tmp_path)
    files = [name for word in example for name in (sorted(glob(word)) if "*" in word else [word])]
    run(*files)
    assert (tmp_path / "risk" / "internal_records.csv").exists()
    drawn.sort("income").write_parquet(tmp_path / "drawn" / "1.parquet")
    with pytest.raises(Refused, match="Files of a release are sorted: their risk is in its report"):
        run(*files)


def test_risk_of_the_confidential_file_alone(folder):
    said = run(
        *("risk", folder / "data.parquet", "--target", "income", "--radius", "5000", "--absolute"),
        *("--out", folder / "out"),
    )
    profile = pl.read_csv(folder / "out" / "internal_profile.csv")
    assert profile["release"].to_list() == ["Data"]
    assert "correspond" not in said
    assert not (folder / "out" / "internal_contributions.csv").exists()


def test_figures_are_the_same_bytes_again(folder):
    for out in ("one", "two"):
        run("risk", folder / "data.parquet", "--target", "income", "--out", folder / out)
    first, second = ((folder / out / "internal_risk.svg").read_bytes() for out in ("one", "two"))
    assert first == second


def test_utility_writes_marked_tables_and_a_figure(folder):
    paths = [folder / f"s{i}.parquet" for i in range(2)]
    said = run(
        *("utility", folder / "data.parquet", *paths, "--columns", "income,sex"),
        *("--replicates", "200", "--out", folder / "out"),
    )
    assert MARK in " ".join(said.split())
    intervals = pl.read_csv(folder / "out" / "internal_intervals.csv")
    assert intervals["statistic"].to_list() == ["mean", "median", "quantile 0.15", "quantile 0.9"]
    income = pl.read_parquet(folder / "data.parquet")["income"]
    assert intervals["confidential"][0] == pytest.approx(income.mean(), rel=0.05)
    assert (intervals["overlap"] > 0.3).all()
    distances = pl.read_csv(folder / "out" / "internal_distances.csv")
    assert distances["column"].to_list() == ["income"]
    assert (folder / "out" / "internal_utility.svg").exists()
    assert (folder / "out" / "internal_utility.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("risk", "data.parquet", "--target", "incme"), "did you mean `income`"),
        (("risk", "data.parquet"), "sensitive variable"),
        (("risk", "data.parquet", "--target", "income", "--radius", "0"), "radius"),
        (("risk", "data.parquet", "--target", "income,case", "--topcode", "0.1"), "one target"),
        (("utility", "data.parquet", "s0.parquet"), "--columns"),
        (("utility", "data.parquet", "s0.parquet", "--columns", "incme"), "did you mean `income`"),
    ],
)
def test_refusals_leave_one_sentence_and_no_files(folder, arguments, message, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(Refused, match=message):
        CliRunner().invoke(app, [*arguments, "--out", "out"], catch_exceptions=False)
    assert not (folder / "out").exists()
