"""A recipe says how the sample was drawn, and the released files say what they may of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe

pytestmark = pytest.mark.usefixtures("outside_here")

RECIPE = """\
[data]
path = "file.parquet"

[design]
weight = "w"
psu = "school"
{design}

[synthesis]
model = "{model}"
sensitive = "share"
{settings}
draws = 1000

[privacy]
mechanism = "Unweighted"

[tables]
statistics = ["mean(share)"]
"""
STAGES = """\
fpc = "schools"
[[design.stages]]
unit = "class"
fpc = "classes"
"""
CALIBRATED = 'calibrated = "C(sex)"\nbase_weight = "d"\n'
ON_SHARE = 'calibrated = "share"\nbase_weight = "d"\n'
BREWER = 'fpc = "chance"\npps = "hartley-rao"\nsquare_sum = "squares"\n'
DESIGNS = {
    STAGES: us.Design("w", psu="school", fpc="schools", stages=[us.Stage("class", "classes")]),
    CALIBRATED: us.Design("w", psu="school", calibrated="C(sex)", base_weight="d"),
    ON_SHARE: us.Design("w", psu="school", calibrated="share", base_weight="d"),
    BREWER: us.Design("w", psu="school", fpc="chance", pps="hartley-rao", square_sum="squares"),
}
OUTCOME = {
    STAGES: DESIGNS[STAGES],
    CALIBRATED: us.Design("w", psu="school", calibrated="C(sex)"),
    ON_SHARE: us.Design("w", psu="school"),
    BREWER: us.Design("w", psu="school", fpc="chance", pps="brewer"),
}


def recipe(
    folder: Path, design: str, model: str = "Beta", settings: str = "bounds = [0, 1]"
) -> Path:
    rng = np.random.default_rng(3)
    school = np.repeat(np.arange(8), 10)
    pl.DataFrame(
        {
            "school": school,
            "class": np.tile(np.repeat([1, 2], 5), 8),
            "sex": rng.integers(1, 3, 80),
            "schools": 40,
            "classes": 6 + school % 3,
            "chance": 0.1 + school / 40,
            "squares": 3.0,
            "d": rng.uniform(4, 6, 80),
            "w": rng.uniform(4, 6, 80),
            "share": rng.beta(2, 3, 80),
        }
    ).write_parquet(folder / "file.parquet")
    text = RECIPE.format(design=design, model=model, settings=settings)
    (folder / "release.toml").write_text(text)
    return folder / "release.toml"


@pytest.mark.parametrize("design", DESIGNS)
def test_the_stewards_design_and_the_published_one(tmp_path: Path, design: str) -> None:
    read = read_recipe(recipe(tmp_path, design))
    assert read.design == DESIGNS[design]
    inside = prepare(read)
    assert inside.whole.design == DESIGNS[design]
    assert inside.narrowed.design == OUTCOME[design]
    assert not {"d", "squares"} & set(inside.narrowed.columns)


@pytest.mark.parametrize("design", [STAGES, CALIBRATED, BREWER])
def test_nothing_gives_a_weight_away_that_is_synthesized(tmp_path: Path, design: str) -> None:
    inside = prepare(
        read_recipe(recipe(tmp_path, design, "FBS", 'predictors = "sex"\npopulation = 400'))
    )
    assert inside.narrowed.design == us.Design("w", psu="school")
    assert set(inside.narrowed.columns) == {"school", "sex", "w", "share"}
    with pytest.raises(us.Refused, match="give the confidential weights away"):
        us.FBS("share", "sex").for_survey(inside.whole)


@pytest.mark.parametrize("design", [STAGES, CALIBRATED, BREWER])
def test_any_model_of_the_weight_hides_what_tells_it(design: str) -> None:
    published = us.Beta("w", bounds=(0, 9)).published_design(DESIGNS[design])
    assert published == us.Design("w", psu="school")
    kept = us.Design("w", replicates=us.Replicates(prefix="r", kind="brr"))
    assert us.Beta("w", bounds=(0, 9)).published_design(kept) == us.Design("w")
    assert us.Beta("share", bounds=(0, 1)).published_design(kept) == kept


@pytest.mark.filterwarnings("ignore")
def test_an_analyst_gets_the_variance_of_the_design(tmp_path: Path) -> None:
    bundle = us.publish(recipe(tmp_path, STAGES), say=lambda _: None, progress=False)
    release = us.open_release(bundle)
    assert release.design == DESIGNS[STAGES]
    table = us.tabulate(release, "mean(share)")
    file = us.Survey(release[0].frame(), DESIGNS[STAGES])
    assert table["se"][0] == pytest.approx(us.tabulate(file, "mean(share)")["se"][0])
