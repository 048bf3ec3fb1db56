"""Recipes: every mistake at once, with its line and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

import understudy as us
from understudy.errors import Refused
from understudy.release.recipe import parse_recipe, read_recipe
from understudy.toml_mistakes import TomlRefused

HERE = Path("here")
GOOD = """\
[data]
path = "sdr.parquet"
codebook = "codebook.toml"

[design]
weight = "weight"
strata = "field"

[synthesis]
model = "FBS"
sensitive = "salary"
predictors = "field + gender"
datasets = 3

[privacy]
mechanism = "Weighted"
epsilon = 10.8

[tables]
statistics = ["count", "mean(salary)"]
by = ["field", "gender"]

[risk]
known = ["field", "gender"]
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(TomlRefused) as refusal:
        parse_recipe(text, Path("here"))
    return str(refusal.value).splitlines()


def test_a_recipe_is_read_whole() -> None:
    recipe = parse_recipe(GOOD, Path("here"), "sdr.toml")
    assert recipe.path == Path("here/sdr.parquet")
    assert recipe.design.strata == "field"
    assert (recipe.model.name, recipe.model.sensitive) == ("FBS", ("salary",))
    assert recipe.mechanism.options == {"epsilon": 10.8}
    made = recipe.synthesis
    assert (made.datasets, made.seed, recipe.tables.margins) == (3, None, True)
    assert recipe.known == (("field", "gender"),)
    assert recipe.out == Path("here/sdr")


def test_a_seed_in_an_old_recipe_is_told_and_not_used() -> None:
    old = GOOD.replace("datasets = 3", "datasets = 3\nseed = 7")
    with pytest.warns(UserWarning, match=r"names a seed, and it is not used.*Take the line out"):
        seeded = parse_recipe(old, Path("here"))
    assert seeded.canonical() == parse_recipe(GOOD, Path("here")).canonical()


def test_all_mistakes_are_told_at_once_with_their_lines() -> None:
    text = GOOD.replace('model = "FBS"', 'model = "FBQ"').replace("epsilon = 10.8", "epsilonn = 1")
    text = text.replace("datasets = 3", 'datasets = "three"') + "\n[riks]\nknown = 1\n"
    messages = mistakes(text)
    assert messages[0] == "release.toml:10: Unknown model `FBQ`; did you mean `FBS`?"
    assert messages[1] == "release.toml:13: `datasets` must be a whole number from 1 to 1,000."
    assert messages[2].startswith(
        "release.toml:17: Unknown key in [privacy] `epsilonn`; did you mean"
    )
    assert messages[3] == "release.toml:26: Unknown section `riks`; did you mean `risk`?"
    assert len(messages) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[data]", "[dat]", "The section [data] is missing."),
        ('path = "sdr.parquet"', "path = 3", "`path` must be text in quotes."),
        ('mechanism = "Weighted"', "mechanism = 3", "`mechanism` must be text in quotes."),
        ('mechanism = "Weighted"', 'mechanism = ""', "`mechanism` must be text in quotes."),
        ('mechanism = "Weighted"\n', "", "[privacy] lacks `mechanism`"),
        ('model = "FBS"', "model = 3", "`model` must be text in quotes."),
        ("epsilon = 10.8", "epsilon = nan", "`epsilon` must be a finite number."),
        ("epsilon = 10.8", "epsilon = true", "`epsilon` must be a finite number."),
        ("epsilon = 10.8", "order = 2", "`order` belongs to Marginals"),
        ('mechanism = "Weighted"', 'mechanism = "Modips"', "Modips goes with model = "),
        ('model = "FBS"', 'model = "Beta"', "Beta takes no predictors"),
        ('predictors = "field + gender"\n', "", "FBS needs `predictors`"),
        ('sensitive = "salary"', "", "[synthesis] lacks `sensitive`"),
        ("datasets = 3", "datasets = 0", "`datasets` must be a whole number from 1 to"),
        ('weight = "weight"', 'weight = "field"', "three different columns"),
        ('strata = "field"', "replicates = { nothing = 1 }", "key of `design.replicates`"),
        ('[design]\nweight = "weight"', '[design]\nweight = "w', "This is not valid TOML"),
        ("[risk]\n", '[ledger]\nplace = "l.db"\n[risk]\n', "[ledger] lacks `cap`"),
        ("[tables]", "[given]", "write [[given]]"),
        ('by = ["field", "gender"]', 'by = ["field", "field"]', "a list of these without repeats"),
        ('known = ["field", "gender"]', "known = [1]", "`known` must be a list of columns"),
    ],
)
def test_each_mistake_names_the_way_out(old: str, new: str, message: str) -> None:
    assert old in GOOD
    assert message in "\n".join(mistakes(GOOD.replace(old, new)))


def test_a_ledger_needs_an_epsilon_beforehand() -> None:
    text = GOOD.replace("epsilon = 10.8", "") + '\n[ledger]\nplace = "l.db"\ncap = "10"\n'
    assert "give `epsilon`" in mistakes(text)[0]


def test_a_recipe_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="There is no recipe at"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="UTF-8"):
        read_recipe(tmp_path / "bytes.toml")


def test_where_the_bundle_goes_does_not_decide_what_is_in_it() -> None:
    original = parse_recipe(GOOD + '\n[output]\nfolder = "a"\n', Path("x"))
    two = parse_recipe(GOOD + '\n[output]\nfolder = "b"\n', Path("y"))
    assert original.canonical() == two.canonical()
    assert original.canonical() != parse_recipe(GOOD.replace("10.8", "3"), Path("x")).canonical()


def test_the_engine_does_not_decide_what_is_in_a_release() -> None:
    limited = parse_recipe(GOOD + '\n[engine]\nmemory = "2 GB"\nthreads = 1\n', HERE)
    assert (limited.engine.memory, limited.engine.threads) == ("2 GB", 1)
    assert limited.canonical() == parse_recipe(GOOD, HERE).canonical()
    assert parse_recipe(GOOD, HERE).engine == us.Engine("duckdb")


def test_mistakes_about_the_engine_are_told_at_once_with_their_lines() -> None:
    whole = GOOD.replace("FBS", "WholeFile").replace("Weighted", "Marginals")
    whole = whole.replace('predictors = "field + gender"\n', "")
    there = whole.replace('path = "sdr.parquet"', 'table = "surveys.sdr"')
    assert parse_recipe(there + '\n[engine]\nkind = "spark"\n', HERE).data.table == "surveys.sdr"
    text = GOOD.replace('path = "sdr', 'table = "a"\npath = "sdr')
    lines = mistakes(text + '[engine]\nkind = "duckdb"\nmaster = "m"\nmemory = "4"\nthreads = 0\n')
    assert [line.partition(": ")[0] for line in lines] == [
        *("release.toml:2", "release.toml:2"),
        *("release.toml:28", "release.toml:29", "release.toml:30"),
    ]
    sentences = " ".join(lines)
    for words in (
        "has a `path` and a `table`",
        "A `table` is read by Spark",
        '`master` belongs to kind = "spark"',
        '`memory` is a number with its unit, such as "4GB"',
        "`threads` must be a whole number from 1 to 4,096",
    ):
        assert words in sentences
    assert (
        "[data] lacks `path`: The confidential file"
        in mistakes(GOOD.replace('path = "sdr.parquet"\n', ""))[0]
    )
    assert "Unknown choice of `kind`" in mistakes(GOOD + '[engine]\nkind = "sprak"\n')[0]
    there = GOOD + '[engine]\nkind = "spark"\n'
    (line,) = mistakes(there)
    assert "release.toml:23: Risk is measured beside each record" in line
    there = there.replace('[risk]\nknown = ["field", "gender"]\n', "")
    assert parse_recipe(there, HERE).engine.on_cluster
    (line,) = mistakes(there.replace('model = "FBS"', 'model = "FBS"\npsu_intercepts = true'))
    assert "FBS with these settings needs every record in memory" in line
    assert "Multinomial, FBP, FBS or WholeFile under Marginals, Modips, NoisyMoments, " in line


@pytest.mark.parametrize("name", ["weighted", "WEIGHTED", "Weighted"])
def test_upper_and_lower_case_do_not_matter(name: str) -> None:
    recipe = parse_recipe(GOOD.replace('"Weighted"', f'"{name}"').replace('"FBS"', '"fbs"'), HERE)
    assert recipe.mechanism.cls is us.Weighted
    assert recipe.mechanism.name == "Weighted"
    assert recipe.model.cls is us.FBS


@pytest.mark.parametrize("name", ["weigthed", "wieghted", "nweighted", "weightedd"])
def test_a_suggestion_never_lowers_protection(name: str) -> None:
    """Weighted and Unweighted are near; of two such names the one that claims more is offered."""
    (said,) = mistakes(GOOD.replace('"Weighted"', f'"{name}"').replace("epsilon = 10.8", ""))
    assert "did you mean `Unweighted`" not in said
    assert "did you mean `Weighted" in said


def test_own_keys_of_another_class_are_named() -> None:
    messages = mistakes(
        GOOD.replace("epsilon = 10.8", "bins = 3").replace("datasets = 3", "prior = 1")
    )
    assert "`prior` belongs to Multinomial" in messages[0]
    assert (
        "`bins` belongs to NoisyMoments or PerturbedHistogram or ReferenceCensored" in messages[1]
    )


def test_what_a_class_refuses_is_told_with_its_line() -> None:
    messages = mistakes(GOOD.replace("epsilon = 10.8", "epsilon = 3\nbound = 1"))
    assert messages == [
        "release.toml:16: Give `epsilon` (over all data sets) or `bound` (per draw), not both."
    ]
