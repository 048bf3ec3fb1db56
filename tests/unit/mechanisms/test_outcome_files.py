"""Files of public rows that stay where they are, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.errors import Refused
from understudy.mechanisms import outcome_files
from understudy.models.record_maker import record_maker
from understudy.models.survey_normal import SurveyNormal

N = 120
GROUP = us.Column("group", role="stratum", type="categorical", levels=("a", "b", "c"))
SALARY = us.Column("salary", role="sensitive", type="integer", bounds=(100, 10**7))
TOTALS = {"a": 40.0, "b": 25.0, "c": 35.0}
COLUMNS = {"group": GROUP, "salary": SALARY}


@pytest.mark.parametrize(
    ("facts", "totals"),
    [({"population_by": {"group": TOTALS}}, TOTALS), ({"population_size": 70.0}, {"all": 70.0})],
)
def test_weights_of_workers_records_add_up_to_public_totals(
    facts: dict[str, Any], totals: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    public = pl.DataFrame({"group": np.repeat(["a", "b", "c"], N // 3)})
    rows = public.with_columns(salary=pl.lit(1), w=pl.lit(1.0))
    survey = us.Survey(rows, us.Design(weight="w", strata="group"), us.Codebook(COLUMNS, **facts))
    model = us.FBS("salary", "group").for_survey(survey)
    assert isinstance(model, SurveyNormal)
    parameters = {
        "coefficients": np.array([[9.0, 0.2], [0.4, 0.0], [0.8, 0.0]]),
        "scale": np.array([0.5, 0.3]),
        "correlation": np.eye(2),
    }
    types = {"salary": pl.Int64(), "w": pl.Float64()}
    maker = record_maker(model, survey, types, parameters, chance_of(b"sixteen bytes or more"))
    made = maker(public, "0 0").select("group", "salary", "w")
    monkeypatch.setattr(outcome_files, "in_blocks", lambda *_: made)
    monkeypatch.setattr(outcome_files, "viewed", lambda frame, _: ibis.memtable(frame))
    ground: Any = SimpleNamespace(types=types, columns=("group", "salary", "w"))
    table, kept = outcome_files._made_there(maker, ibis.memtable(public), ground)
    assert kept is made
    level = pl.col("group") if len(totals) > 1 else pl.lit("all")
    file = pl.DataFrame(table.to_polars())
    assert dict(file.group_by(level.alias("x")).agg(pl.col("w").sum()).iter_rows()) == (
        pytest.approx(totals)
    )
    assert file["salary"].to_list() == made["salary"].to_list()


def test_other_models_have_no_files_in_place() -> None:
    survey = us.Survey(pl.DataFrame({"salary": [150]}), codebook=us.Codebook({"salary": SALARY}))
    ground: Any = None
    with pytest.raises(Refused, match="go with FBS and FBP"):
        outcome_files.files_in_place(us.Beta("salary"), survey, ground, [], chance_of(1))
