"""The study of paper C: its files, its published columns, going on after a stop, and its claims."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import betaincinv

import understudy as us
from understudy_studies.censoring import replicate as replicates
from understudy_studies.censoring import run as censoring
from understudy_studies.censoring.replicate import CensoringDesign, replicate, statistics
from understudy_studies.censoring.run import run_study
from understudy_studies.censoring.tables import COUNT_SUMMARY, VIOLINS, table_1, true_statistics
from understudy_studies.framework import published

SMALL = CensoringDesign(150, 150, "gender + weeks", us.SamplerSettings(800, 2, 150))
EPSILONS = (5.0, 4.0)  # those of figures; the third is a third fit of each kind
CSV = ["table-1", "table-2", "table-3", "bounds", "utility", "statistics"]


@pytest.fixture(scope="module")
def stopped_and_finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A study that is killed after its first replicate, then run again to the end, where the second
    has the numbers of the first."""
    out = tmp_path_factory.mktemp("study")
    computed: list[int] = []
    numbers: list[dict[str, Any]] = []
    patch = pytest.MonkeyPatch()

    def counted(design: CensoringDesign, seed: int, number: int) -> dict[str, Any]:
        if number == 1 and computed == [0]:
            computed.append(-1)
            raise KeyboardInterrupt
        computed.append(number)
        if number == 0:
            numbers.append(replicate(design, seed, number))
        return numbers[0] | {"replicate": number}

    patch.setattr(replicates, "EPSILONS", EPSILONS)
    patch.setattr(censoring, "replicate", counted)
    with pytest.raises(KeyboardInterrupt):
        run_study(2, out, seed=3, progress=False, design=SMALL)
    run_study(2, out, seed=3, progress=False, design=SMALL)
    patch.undo()
    return out, computed


@pytest.mark.any_noise
def test_a_stopped_study_goes_on_with_the_same_numbers(
    stopped_and_finished: tuple[Path, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, computed = stopped_and_finished
    assert computed == [0, -1, 1]  # the first replicate was not computed again
    rows = pl.read_csv(out / "replicates.csv", infer_schema_length=None)
    assert rows["replicate"].unique().sort().to_list() == [0, 1]
    monkeypatch.setattr(replicates, "EPSILONS", EPSILONS)
    # the histogram's noise has no seed
    fresh = [r for r in replicate(SMALL, 3, 0)["rows"] if not r["mechanism"].startswith("PH")]
    kept = rows.filter(pl.col("replicate") == 0, ~pl.col("mechanism").str.starts_with("PH"))
    assert kept.height == len(fresh)
    for old, new in zip(kept.iter_rows(named=True), fresh, strict=True):
        for name, value in new.items():
            assert old[name] == value, (new["mechanism"], name)


@pytest.mark.any_noise
def test_another_seed_does_not_mix_with_stored_replicates(
    stopped_and_finished: tuple[Path, list[int]],
) -> None:
    out, _ = stopped_and_finished
    with pytest.raises(us.Refused, match="another `seed`"):
        run_study(2, out, seed=4, progress=False, design=SMALL)


@pytest.mark.any_noise
def test_every_table_has_published_ours_and_difference(
    stopped_and_finished: tuple[Path, list[int]],
) -> None:
    out, _ = stopped_and_finished
    for name in CSV:
        table = pl.read_csv(out / f"{name}.csv", infer_schema_length=None)
        assert table.columns[-3:] == ["published", "ours", "difference"]
        both = table.drop_nulls(["published", "ours"])
        assert both.is_empty() == (name == "utility")  # the paper prints no utility
        difference = both["ours"] - both["published"].cast(pl.Float64)
        np.testing.assert_allclose(both["difference"].cast(pl.Float64), difference)
        assert "ReferenceCensored" in table["mechanism"].to_list(), name
    first = pl.read_csv(out / "table-1.csv", infer_schema_length=None)
    line = first.filter(mechanism="Censor_uw", epsilon=4.0, statistic="mean")
    assert line["published"].item() == 419
    second = pl.read_csv(out / "table-2.csv", infer_schema_length=None)
    data = second.filter(mechanism="Data", statistic="90th Q")
    assert data["published"].item() == 150_000


@pytest.mark.any_noise
def test_every_figure_is_there_twice(stopped_and_finished: tuple[Path, list[int]]) -> None:
    out, _ = stopped_and_finished
    for name in [*VIOLINS, "figure-01", "figure-09"]:
        assert (out / f"{name}.svg").stat().st_size > 2000
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.any_noise
def test_the_page_is_self_contained_and_described(
    stopped_and_finished: tuple[Path, list[int]],
) -> None:
    out, _ = stopped_and_finished
    text = (out / "study.html").read_text(encoding="utf-8")
    tags = Tags(text).tags
    images = [attributes for tag, attributes in tags if tag == "img"]
    assert len(images) >= 15
    assert all((attributes["src"] or "").startswith("data:image/svg+xml") for attributes in images)
    assert all(len(attributes["alt"] or "") > 30 for attributes in images)
    assert not [tag for tag, _ in tags if tag in ("script", "link", "iframe")]
    files = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert files
    assert all(href and (out / href).exists() for href in files)
    assert "prefers-color-scheme:dark" in text
    assert "half the epsilon of the others" in text  # the histogram's relation


def test_the_paper_is_copied_consistently() -> None:
    def printed(number: int, keys: int) -> dict[Any, Any]:
        rows = published("censoring", f"table-{number}").iter_rows()
        return {row[:keys]: row[keys:] for row in rows}

    table_1, table_3 = (printed(number, 2) for number in (1, 3))
    for low, q1, median, mean, q3, high, spread in [*table_1.values(), *table_3.values()]:
        assert low <= q1 <= median <= q3 <= high
        assert low <= mean <= high
        assert spread > 0
    for name in ("Weighted-e", "Censor_w"):
        assert table_1[name, 4.0] == table_3[name, 1.0]
    for name in ("Weighted", "Weighted-e", "Censor_w", "Censor_uw"):
        bound, epsilon = printed(2, 1)[name,][:2]
        assert bound is not None
        assert epsilon == pytest.approx(2 * bound)


def test_summaries_against_independent_ones() -> None:
    counts = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    low, q1, middle, q3, high = np.quantile(counts, (0, 0.25, 0.5, 0.75, 1))
    expected = (low, q1, middle, counts.mean(), q3, high, counts.std(ddof=1))
    summary = pl.DataFrame({"count": counts}).select(**COUNT_SUMMARY).row(0)
    assert summary == pytest.approx(expected)
    truth = true_statistics()
    assert truth["mean"] == pytest.approx(0.5 / 3.5)
    for name, share in (("q15", 0.15), ("median", 0.5), ("q90", 0.9)):
        assert truth[name] == pytest.approx(betaincinv(0.5, 3.0, share))
    computed = statistics(np.arange(101.0))
    assert computed == pytest.approx({"mean": 50.0, "median": 50.0, "q15": 15.0, "q90": 90.0})


@pytest.mark.slow
@pytest.mark.any_noise
@pytest.mark.timeout(3600)
def test_the_paper_holds_up(tmp_path: Path) -> None:
    """Bounds, counts and the utility of ReferenceCensored over 40 replicates."""
    run_study(40, tmp_path, seed=1, progress=False)
    rows = pl.read_csv(tmp_path / "replicates.csv", infer_schema_length=None)

    def values(mechanism: str, column: str, epsilon: float | None = None) -> pl.Series:
        own = rows.filter(pl.col("epsilon").eq_missing(epsilon), mechanism=mechanism, c1=1.0)
        return own[column].drop_nulls()

    unweighted = values("Unweighted", "bound")
    assert len(unweighted) == 40
    assert unweighted.min() > 6.5  # type: ignore[operator]
    assert unweighted.max() < 15  # type: ignore[operator]
    weighted = values("Weighted", "bound")
    assert weighted.min() > 1.6  # type: ignore[operator]
    assert weighted.max() < 3.8  # type: ignore[operator]
    strict = rows.filter(pl.col("mechanism").is_in(["Censor_w", "Censor_uw", "ReferenceCensored"]))
    assert strict["epsilon"].null_count() == 0
    assert (strict["bound"] <= strict["epsilon"] / 2).all()
    counts = table_1(rows).filter(mechanism="Censor_uw", statistic="mean")
    for theirs, ours in counts.select("published", "ours").iter_rows():
        assert ours == pytest.approx(theirs, rel=0.1)
    assert values("ReferenceCensored", "u_m", 1.0).mean() <= 0.035  # type: ignore[operator]
    assert values("ReferenceCensored", "u_a", 1.0).mean() <= 0.0004  # type: ignore[operator]
    assert values("ReferenceCensored", "u_m", 3.0).mean() <= 0.030  # type: ignore[operator]
