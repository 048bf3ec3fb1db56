"""Files with implicates: Rubin's rule in tables, releases and commands, risks averaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

import understudy as us
from understudy.cli.risk import risk
from understudy.cli.tabulate import tabulate
from understudy.release.check import check_records
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe
from understudy.report.inside_facts import RiskSettings
from understudy.report.intruder import risk_evidence
from understudy.risk.assessment import assess_risk
from understudy.risk.identification import identification_risk

M, N = 5, 60
RECIPE = """\
[data]
path = "file.parquet"
implicates = "imp"
{more}
[synthesis]
model = "NegativeBinomial"
sensitive = "income"
predictors = "sex"
publish = ["rich"]

[privacy]
mechanism = "Unweighted"

[tables]
statistics = ["mean(income)"]
by = ["sex"]
"""


def stacked(shuffled: bool = False) -> pl.DataFrame:
    """Each person's implicates together, as the Survey of Consumer Finances has them; incomes of a
    third are imputed."""
    rng = np.random.default_rng(5)
    income = np.round(rng.lognormal(10, 1, N))
    imputed = np.arange(N) % 3 == 0
    drawn = np.round(np.where(imputed, rng.lognormal(10, 1, (M, N)), income))
    frame = pl.DataFrame(
        {
            "person": np.repeat(np.arange(N), M),
            "imp": np.tile(np.arange(1, M + 1), N),
            "sex": np.repeat(rng.choice(["f", "m"], N), M),
            "rich": np.repeat(rng.choice([0, 1], N), M),
            "w": np.repeat(rng.uniform(1, 3, N), M),
            "income": drawn.T.ravel(),
        }
    )
    return frame.sample(fraction=1, shuffle=True, seed=3) if shuffled else frame


def by_rubin(frame: pl.DataFrame) -> tuple[float, float, float]:
    """The mean of incomes without weights, its standard error and df, as Rubin (1987) and Barnard
    and Rubin (1999) print them."""
    files = [frame.filter(imp=k)["income"].to_numpy() for k in range(1, M + 1)]
    q, u = np.array([f.mean() for f in files]), np.array([f.var(ddof=1) / len(f) for f in files])
    b = q.var(ddof=1)
    total = u.mean() + (1 + 1 / M) * b
    complete, gamma = len(files[0]) - 1, (1 + 1 / M) * b / total
    old = (M - 1) / gamma**2
    observed = (complete + 1) / (complete + 3) * complete * (1 - gamma)
    return float(q.mean()), float(np.sqrt(total)), old * observed / (old + observed)


def test_a_table_of_implicates_is_rubins() -> None:
    frame = stacked()
    survey = us.Survey(frame)
    mean, se, df = by_rubin(frame)
    (row,) = us.tabulate(us.implicates(survey, "imp"), "mean(income)").rows(named=True)
    assert (row["estimate"], row["se"], row["df"]) == pytest.approx((mean, se, df), rel=1e-12)
    assert row["upper"] - row["estimate"] == pytest.approx(stats.t.ppf(0.975, df) * se, rel=1e-9)
    (slope,) = us.regress(us.implicates(survey, "imp"), "income ~ 1").rows(named=True)
    assert (slope["estimate"], slope["se"]) == pytest.approx((mean, se), rel=1e-9)


def run(command: object, *arguments: object) -> str:
    app = typer.Typer()
    app.command()(command)  # type: ignore[arg-type]
    out = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert out.exit_code == 0, out.output
    return out.output


def test_the_commands_take_the_column(tmp_path: Path) -> None:
    frame = stacked()
    frame.write_parquet(tmp_path / "file.parquet")
    table = tmp_path / "table.csv"
    run(
        *(tabulate, tmp_path / "file.parquet", "--statistic", "mean(income)"),
        *("--implicates", "imp", "--out", table),
    )
    mean, se, _ = by_rubin(frame)
    assert pl.read_csv(table).select("estimate", "se").row(0) == pytest.approx((mean, se))
    first = frame.filter(imp=1).drop("imp")
    first.with_columns(pl.col("income") * 1.1).write_parquet(tmp_path / "synthetic.parquet")
    said = run(
        *(risk, tmp_path / "file.parquet", tmp_path / "synthetic.parquet", "--known", "sex"),
        *("--target", "income", "--implicates", "imp", "--out", tmp_path / "out"),
    )
    assert "Risks are averaged over 5 implicates." in said


def test_risks_are_averaged_over_implicates() -> None:
    frame = stacked()
    files = [frame.filter(imp=1).drop("imp").with_columns(pl.col("income") * 1.1)]
    survey, known = us.Survey(frame), ["sex", "rich"]
    assessed = assess_risk(us.implicates(survey, "imp"), files, known=[known], target=["income"])
    each = [frame.filter(imp=k).drop("imp") for k in range(1, M + 1)]
    for release, released in (("Data", None), ("Synthetic", files)):
        expected = np.mean(
            [identification_risk(file, released, known=known, target="income") for file in each], 0
        )
        np.testing.assert_allclose(assessed.main[release], expected, rtol=1e-12)
    assert assessed.contributions is not None
    alone = [assess_risk(e, files, known=[known], target=["income"]).contributions for e in each]
    numbers = np.mean([table.select(pl.col(pl.Float64)).to_numpy() for table in alone], 0)
    np.testing.assert_allclose(assessed.contributions.select(pl.col(pl.Float64)), numbers)


@pytest.mark.parametrize(
    ("frame", "column", "sentence"),
    [
        (stacked(), "imq", "Unknown column of implicates `imq`"),
        (stacked(), "income", "`income` does not number implicates"),
        (stacked(), "w", "the design cannot name it too"),
        (stacked()[1:], "imp", "do not have the same number of records"),
        (stacked(shuffled=True), "imp", "list `person` in different orders"),
        (stacked().with_columns(imp=pl.lit(1)), "imp", "`imp` does not number implicates"),
        (
            stacked().with_columns(imp=pl.when(pl.col("imp") > 1).then("imp")),
            "imp",
            "Some records have no implicate in `imp`",
        ),
    ],
)
def test_what_is_not_a_file_of_implicates_is_refused(
    frame: pl.DataFrame, column: str, sentence: str
) -> None:
    codebook = us.Codebook({"person": us.Column("person", role="unit")})
    survey = us.Survey(frame, us.Design(weight="w"), codebook)
    with pytest.raises(us.Refused) as refusal:
        us.implicates(survey, column)
    assert sentence in str(refusal.value)


def test_a_release_is_of_the_first_implicate_and_its_report_of_all(tmp_path: Path) -> None:
    frame = stacked()
    frame.write_parquet(tmp_path / "file.parquet")
    (tmp_path / "release.toml").write_text(RECIPE.format(more=""))
    inside = prepare(read_recipe(tmp_path / "release.toml"))
    check_records(inside)
    first = frame.filter(imp=1)
    assert inside.narrowed.n == N
    assert "imp" not in inside.whole.columns
    assert sorted(inside.narrowed.frame()["income"]) == sorted(first["income"])
    assert inside.publication.imputed
    table = inside.confidential_table.filter(pl.col("sex") == "All")
    mean, se, df = by_rubin(frame)
    assert table.select("estimate", "se", "df").row(0) == pytest.approx((mean, se, df), rel=1e-12)
    # the implicates stand in the order in which synthetic rows are drawn
    made = [us.Survey(inside.narrowed.frame().with_columns(pl.col("income") * 1.1))]
    settings = RiskSettings((("sex", "rich"),), ("income",))
    evidence = risk_evidence(settings, inside.analysed, made)
    assert evidence is not None
    synthetic = frame.filter(imp=1).with_columns(pl.col("income") * 1.1)
    expected = np.mean(
        [
            identification_risk(
                frame.filter(imp=k), [synthetic], known=["sex", "rich"], target="income"
            ).mean()
            for k in range(1, M + 1)
        ]
    )
    means = {row["release"]: row["mean"] for row in evidence["profile"]}
    assert means["synthetic"] == pytest.approx(expected, rel=1e-6)


def test_records_are_not_chosen_by_imputed_values(tmp_path: Path) -> None:
    stacked().write_parquet(tmp_path / "file.parquet")
    (tmp_path / "release.toml").write_text(RECIPE.format(more='where = "income > 40000"\n'))
    with pytest.raises(us.Refused, match="choose records by columns that were not imputed"):
        prepare(read_recipe(tmp_path / "release.toml"))
