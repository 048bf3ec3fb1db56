"""Expected matches beside loops over all rows, and beside R eq. 1 averaged over all own rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.risk.assessment import assess_risk


def people(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    area, sex = rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1]), rng.choice(["f", "m"], n)
    pay, rent = np.round(rng.lognormal(3, 0.6, n)), np.round(rng.lognormal(2, 0.5, n), 1)
    return pl.DataFrame({"area": area, "sex": sex, "pay": pay, "rent": rent})


@pytest.mark.parametrize("target", [["pay"], ["pay", "rent"]])
def test_it_is_what_loops_over_all_rows_count(target: list[str]) -> None:
    confidential, files = people(40, 1), [people(70, 2), people(25, 3)]
    files[1] = files[1].filter(pl.col("area") != "c")  # a pattern that one file does not show
    known = ["area", "sex"]
    ours = us.expected_matches(confidential, files, known=known, target=target, radius=0.25)
    for record, line in zip(confidential.to_dicts(), ours.to_dicts(), strict=True):
        shown, matches, risk = [], [], []
        for file in files:
            rows = [r for r in file.to_dicts() if all(r[k] == record[k] for k in known)]
            near = [
                all(abs(row[t] - record[t]) <= 0.25 * abs(record[t]) + 1e-9 for t in target)
                for row in rows
            ]
            shown.append(len(rows))
            matches.append(sum(near))
            # any of them may be taken for the record: eq. 1 of each, on average
            outside = 1 - sum(near) / len(rows) if rows else 0.0
            risk.append(sum(outside * own for own in near) / len(rows) if rows else 0.0)
        assert line["shown"] == np.mean(shown)
        assert line["matches"] == np.mean(matches)
        assert line["risk"] == pytest.approx(np.mean(risk), abs=1e-12)


def test_it_is_equation_1_averaged_over_all_ways_to_own_a_row() -> None:
    """Rows of one pattern, moved on one by one: each is each record's own once."""
    confidential, made = people(30, 4).drop("area", "sex"), people(30, 5).drop("area", "sex")
    asked = {"known": (), "target": "pay", "radius": 0.2}
    turned = [pl.concat([made[k:], made[:k]]) for k in range(made.height)]
    average = us.identification_risk(confidential, turned, **asked)  # type: ignore[call-overload]
    ours = us.expected_matches(confidential, made, **asked)["risk"]  # type: ignore[arg-type]
    np.testing.assert_allclose(ours, average, atol=1e-12)
    with pytest.raises(us.Refused, match="list of synthetic data sets is empty"):
        us.expected_matches(confidential, [], **asked)  # type: ignore[arg-type]


def test_the_measure_is_there_by_name() -> None:
    confidential, made = people(30, 4), people(50, 6)
    known = [("area",)]
    assessed = assess_risk(confidential, [made], known=known, target=["pay"], measure="matches")
    direct = us.expected_matches(confidential, made, known=("area",), target="pay")["risk"]
    np.testing.assert_allclose(assessed.risks[known[0]]["Synthetic"], direct)
    assert not any("correspond" in note for note in assessed.notes)
