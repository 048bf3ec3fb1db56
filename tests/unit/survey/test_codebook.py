"""Codebooks in TOML: written and read back to the same thing; mistakes are sentences."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import Refused
from understudy.survey.codebook import FACTS, Codebook, Column, Role, Type, read_codebook
from understudy.survey.codebook_text import codebook_to_toml, write_codebook
from understudy.toml_mistakes import TomlRefused

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ['say "x"', "back\\slash", "two\nlines", "tab\t", "a.b c", "ключ", "=", "#", "[x]", "'''",
         "\x7f", "\u2028", "True", "1", "01", "1.0", "1e5", '"1"', '""', "inf", "nan"]
    ),
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.sampled_from([TEXTS, NUMBERS, st.booleans()])


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    values = draw(VALUES)
    some = st.lists(values, unique=True, max_size=4)
    levels = draw(st.one_of(st.none(), some.filter(bool)))
    missing = draw(some)
    low, high = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique_by=float)))
    log = draw(st.booleans()) and low > 0
    bounds = draw(st.sampled_from([None, (float(low), float(high))]))
    return Column(
        name=name,
        role=draw(st.sampled_from(get_args(Role))),
        type=draw(st.sampled_from(get_args(Type))),
        label=draw(TEXTS),
        levels=None if levels is None else tuple(levels),
        value_labels=draw(st.dictionaries(values, TEXTS, max_size=4)),
        bounds=bounds,
        transform="log" if log else None,
        missing=tuple(missing),
        drafted=frozenset(draw(st.sets(st.sampled_from(FACTS)))),
        blanks=draw(st.sampled_from([None, True, False])),
        grid=draw(
            st.sampled_from([None, "linear", "log", (0.0, 0.5, 9.0), (-719162.0, 2932896.0)])
        ),
        special=draw(st.sampled_from([(), (0.0,), (0.0, 99999.5), (-719163.0, 2932897.0)])),
        rounding=draw(st.sampled_from([None, 0.1, 100.0])),
        applies_when=draw(st.sampled_from(["", "age >= 16", "sex == 'f'"])),
        skip=draw(st.one_of(st.none(), values)),
        derived=draw(st.sampled_from(["", "wages + rents"])),
    )


@st.composite
def codebooks(draw: st.DrawFn) -> Codebook:
    names = draw(st.lists(TEXTS, unique=True, max_size=4))
    made = {name: draw(columns(name)) for name in names}
    totals = {}
    for column in made.values():
        if column.levels is not None and draw(st.booleans()):
            totals[column.name] = {level: draw(st.floats(0.5, 1e9)) for level in column.levels}
    rules = draw(st.lists(TEXTS.filter(str.strip), max_size=2))
    return Codebook(
        made,
        title=draw(TEXTS),
        population_by=totals,
        impossible=tuple(rules),
        order=draw(st.sampled_from([(), ("wages <= income",)])),
        design_effect=draw(st.sampled_from([None, 1.5])),
    )


@settings(max_examples=200, deadline=None)
@given(codebooks())
def test_written_and_read_back(codebook: Codebook) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codebook.toml"
        write_codebook(codebook, path)
        again = read_codebook(path)
    assert again == codebook
    assert list(again.columns) == list(codebook.columns)
    for column in codebook:
        for before, after in (
            (column.levels or (), again[column.name].levels or ()),
            (column.missing, again[column.name].missing),
            (tuple(column.value_labels), tuple(again[column.name].value_labels)),
        ):
            assert [isinstance(v, str) for v in before] == [isinstance(v, str) for v in after]


def test_population_totals_survive(tmp_path: Path) -> None:
    codebook = Codebook(
        {
            "sex": Column("sex", type="categorical", levels=(1, 2)),
            "state": Column("state", type="categorical"),
        },
        population_size=300.0,
        population_by={"sex": {1: 100.0, 2: 200.0}, "state": {"01": 120.0, 5: 180.0}},
    )
    write_codebook(codebook, tmp_path / "codebook.toml")
    assert read_codebook(tmp_path / "codebook.toml") == codebook


def test_dates_are_written_as_dates(tmp_path: Path) -> None:
    path = tmp_path / "codebook.toml"
    path.write_text('[columns.born]\ntype = "date"\nbounds = [1970-01-02, 2000-01-01]\n')
    codebook = read_codebook(path)
    assert codebook["born"].bounds == (1.0, 10957.0)  # days since 1970-01-01
    assert "bounds = [1970-01-02, 2000-01-01]" in codebook_to_toml(codebook)


def test_a_person_can_read_and_change_it(tmp_path: Path) -> None:
    column = Column("sch.wide", label="Met target", drafted=frozenset({"role", "levels"}))
    text = codebook_to_toml(Codebook({"sch.wide": column}))
    assert '[columns."sch.wide"]' in text
    assert "# Drafted from the data, to be checked: role, levels." in text
    path = tmp_path / "by-hand.toml"
    path.write_bytes(
        b'\xef\xbb\xbf[columns.x]\r\nrole = "public"\r\nvalue_labels = {1 = "Yes"}\r\n'
    )
    assert read_codebook(path)["x"].value_labels == {1: "Yes"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("titel = 'x'", "did you mean `title`"),
        ("columns = 5", "`columns` in the codebook must be a table"),
        ("[columns]\nx = 5", "`columns.x` in the codebook must be a table"),
        ("[columns.x]\nrolle = 'public'", "did you mean `role`"),
        ("[columns.x]\nrole = 'publick'", "did you mean `public`"),
        ("[columns.x]\nrole = 5", "Unknown role"),
        ("[columns.x]\nrole = ['public']", "Unknown role"),
        ("[columns.x]\ntype = 'number'", "Unknown type"),
        ("[columns.x]\ntype = {}", "Unknown type"),
        ("[columns.x]\ntransform = 'logit'", "did you mean `log`"),
        ("[columns.x]\nlevels = 3", "must be a list"),
        ("[columns.x]\nlevels = []", "without repeats"),
        ("[columns.x]\nlevels = [1, 1]", "without repeats"),
        ("[columns.x]\nlevels = [1, 1.0]", "without repeats"),
        ("[columns.x]\nlevels = [[1]]", "must be a list"),
        ("[columns.x]\nlevels = [{a = 1}]", "must be a list"),
        ("[columns.x]\nlevels = [2020-01-01]", "must be a list"),
        ("[columns.x]\nlevels = [nan]", "must be a list"),
        ("[columns.x]\nmissing = -9", "must be a list"),
        ("[columns.x]\nbounds = [1]", "two finite numbers"),
        ("[columns.x]\nbounds = [2, 1]", "two finite numbers"),
        ("[columns.x]\nbounds = [1, 1]", "two finite numbers"),
        ("[columns.x]\nbounds = [0, inf]", "two finite numbers"),
        ("[columns.x]\nbounds = [0, nan]", "two finite numbers"),
        ("[columns.x]\nbounds = [false, true]", "two finite numbers"),
        ("[columns.x]\nbounds = ['a', 'b']", "two finite numbers"),
        ("[columns.x]\nbounds = {low = 0}", "two finite numbers"),
        (f"[columns.x]\nbounds = [0, 1{'0' * 400}]", "two finite numbers"),
        ("[columns.x]\nbounds = [0, 5]\ntransform = 'log'", "above 0"),
        ("[columns.x]\nvalue_labels = ['a']", "must be a table"),
        ("[columns.x]\ndrafted = ['rolle']", "did you mean `role`"),
        ("[columns.x]\ndrafted = [1]", "Unknown drafted fact"),
        ("[columns.x]\ndrafted = 'role'", "must be a list"),
        ("[columns.x]\ngrid = 'logg'", '"linear", "log" or a list of increasing edges'),
        ("[columns.x]\ngrid = [3]", "increasing edges"),
        ("[columns.x]\ngrid = [3, 3]", "increasing edges"),
        ("[columns.x]\ngrid = ['a', 'b']", "increasing edges"),
        ("[columns.x]\ngrid = 5", "increasing edges"),
        ("[columns.x]\nspecial = 0", "a list of finite numbers"),
        ("[columns.x]\nspecial = [inf]", "a list of finite numbers"),
        ("[columns.x]\nrounding = 0", "above 0"),
        ("[columns.x]\nblanks = 1", "true or false"),
        ("[columns.x]\nskip = [1]", "a string, a number or true/false"),
        ("[columns.x]\napplies_when = ' '", "a condition"),
        ("[columns.x]\nderived = 5", "a formula"),
        ("order = 'a < b'", 'a list of conditions, such as "wages <= income"'),
        ("design_effect = 0", "above 0"),
        ("population = 5", "must be a table"),
        ("[population]\nsize = 0", "above 0"),
        ("[population]\nsize = true", "above 0"),
        ("[population]\nsize = 'many'", "above 0"),
        ("[population]\nby = 5", "must be a table"),
        ("[population.by]\nx = 5\n[columns.x]", "must be a table"),
        ("[population.by.y]\na = 5\n[columns.x]", "Unknown column under"),
        ("[population.by.x]\nb = 5\n[columns.x]\nlevels = ['a']", "Unknown level"),
        ("[population.by.x]\na = -5\n[columns.x]\nlevels = ['a']", "above 0"),
        ("[population]\nsize = 9\n[population.by.x]\na = 5\n[columns.x]\nlevels = ['a']", "add up"),
        ("[columns.x", "not valid TOML"),
        ("[columns.x]\nrole = public", "not valid TOML"),
        ("[columns.x]\nrole = 'a'\nrole = 'b'", "not valid TOML"),
        ("[columns.x]\n[columns.x]", "not valid TOML"),
        ("a = " + "[" * 100_000, "not valid TOML"),
        ("a = " + "1" * 10_000, "not valid TOML"),
        ('label = "\\x"', "not valid TOML"),
        ("\0", "not valid TOML"),
    ],
)
def test_mistakes_are_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "codebook.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused) as refused:
        read_codebook(path)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_all_mistakes_are_named_at_once_by_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "pay.toml"
    path.write_text(
        """\
titel = "Pay"  # title
impossible = [5]
[population]
size = -1
[population.by.sex]
3 = 10
[population.by."sch wide"]
1 = "many"
[columns.sex]
levels = [
    1,
    2,
]
rolle = "public"
missing = [nan, nan]
[columns."sch.wide"]  # what another mistake does not hide
role = "publick"
bounds = [0, 5]
transform = "log"
value_labels = 3
[ columns . "sch wide" ]
drafted = ["rolle", "levels", "bond"]
type = "number"
columns.x = 5
""",
        encoding="utf-8",
    )
    with pytest.raises(TomlRefused) as refused:
        read_codebook(path)
    said = dict.fromkeys(line.split(" ")[0] for line in str(refused.value).splitlines())
    numbers = [1, 2, 4, 6, 8, 14, 15, 17, 18, 20, 22, 23, 24]
    assert list(said) == [f"pay.toml:{number}:" for number in numbers]
    assert "pay.toml:1: Unknown key of the codebook `titel`; did you mean `title`?" in str(
        refused.value
    )
    assert (
        "pay.toml:17: Unknown role of column `sch.wide` `publick`; did you mean `public`?"
        in str(refused.value)
    )


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.booleans(), st.data())
def test_any_damage_is_refused_or_read(noise: bytes, inside: bool, data: st.DataObject) -> None:
    text = codebook_to_toml(
        Codebook({"x": Column("x", levels=(1, 2), value_labels={1: "a"}, bounds=(0.0, 1.0))})
    ).encode()
    if inside:
        start = data.draw(st.integers(0, len(text)))
        noise = text[:start] + noise + text[start + len(noise) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codebook.toml"
        path.write_bytes(noise)
        try:
            result: Any = read_codebook(path)
        except Refused as refused:
            result = refused
    assert isinstance(result, (Codebook, Refused))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="There is no codebook at"):
        read_codebook(tmp_path / "nowhere.toml")
    with pytest.raises(Refused, match="cannot be read: Is a directory"):
        read_codebook(tmp_path)
    (tmp_path / "latin.toml").write_bytes("title = 'é'".encode("latin-1"))
    with pytest.raises(Refused, match="not UTF-8"):
        read_codebook(tmp_path / "latin.toml")
