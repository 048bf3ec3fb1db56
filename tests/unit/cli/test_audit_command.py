"""`understudy audit`: the table on stdout, one sentence on stderr and exit 2 when it fails."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from understudy.audit.attack import attacks
from understudy.cli.audit import audit

app = typer.Typer()
app.command()(audit)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_a_mutant_that_is_caught_exits_0():
    result = run("censored", "--mutant", "clip-missing", "--trials", "20000")
    assert result.exit_code == 0
    assert result.stdout.count("broken") == 2


def test_every_mutant_of_one_mechanism():
    result = run("censored-weighted", "--mutant", "every", "--trials", "1500000")
    assert result.exit_code == 0
    assert result.stdout.count("broken") == 8


def test_an_audit_that_is_asleep_exits_2_with_one_sentence():
    result = run("censored", "--trials", "1000")
    assert result.exit_code == 2
    assert "asleep" in result.stdout
    assert "verdict: asleep" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("stand_in_noise")
def test_tables_of_counts_are_audited_under_three_relations():
    result = run("modips-public", "--trials", "1000")
    assert "broken" not in result.stdout
    assert "verdict: asleep" in result.stderr  # so few trials cannot show 0.9 of the claim
    assert [result.stdout.count(name) for name in ("add-remove", "replace", "blank")] == [1, 1, 1]


@pytest.mark.usefixtures("stand_in_noise")
def test_the_leak_of_observed_support_is_shown_and_expected():
    result = run("modips-observed", "--trials", "2000")
    assert result.exit_code == 0
    assert result.stdout.count("broken") == 3
    assert "inf" in result.stdout


@pytest.mark.usefixtures("stand_in_noise")
def test_mutants_of_counts_are_caught():
    result = run("modips-threshold", "--mutant", "threshold-missing", "--trials", "2000")
    assert result.exit_code == 0
    assert result.stdout.count("broken") == 3


def test_an_unknown_mechanism_exits_2_and_names_the_nearest():
    result = run("censord")
    assert result.exit_code == 2
    assert "did you mean `censored`" in result.stderr


def test_the_list_names_every_attack_with_its_errors():
    lines = run("--list").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(attacks())
    assert "modips-observed: leaks as it is" in lines
    assert "perturbed-histogram: scale-halved, two-draws" in lines


def test_help_shows_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example: understudy audit censored --mutant clip-missing" in result.stdout
