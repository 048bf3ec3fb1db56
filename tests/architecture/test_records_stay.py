"""Records on a cluster stay there: what could bring a column of them here is allowed by name.

A release, a table or an answer on Spark may bring tables and moments here. Every function
on that road that asks for the rows of a query is listed here with the reason why these are few, or
why it never meets a cluster. What a release really brings is counted in
tests/unit/spark/test_release_on_spark.py.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from parsed_source import tree_of

SOURCE = Path(__file__).resolve().parents[2] / "src" / "understudy"

# The rooms and files through which the records of a cluster pass.
ROAD = (
    *("cluster.py", "ledger/fingerprint.py", "survey/survey.py", "survey/spark.py"),
    *("survey/collected.py", "survey/partition_work.py", "survey/rows_here.py", "survey/write.py"),
    *("survey/predictor_cells.py", "in_place.py", "publication.py", "models/public_totals.py"),
    *("models/record_maker.py", "fitting/placed_records.py", "fitting/placed_fitter.py"),
    *("mechanisms/outcome_files.py", "mechanisms/outputs/outcome_draws.py"),
    *("mechanisms/outputs/cell_draws.py", "mechanisms/outputs/file_tables.py"),
    *("survey/read.py", "tables", "influence.py", "corrected_table.py", "synthesis.py"),
    *("mechanisms/row_counts.py", "mechanisms/marginals.py", "mechanisms/modips.py"),
    *("mechanisms/laplace_table.py",),
    *(
        "mechanisms/unweighted.py",
        "mechanisms/whole_file",
        "release",
        "risk/kept.py",
        "risk/pieces.py",
        "risk/by_pattern.py",
        "verify",
    ),
)
BRINGS = {
    *("frame", "batches", "to_polars", "to_pyarrow", "to_pyarrow_batches", "to_pandas", "execute"),
    *("toPandas", "toArrow", "toLocalIterator", "collect"),
}
COLLECTED = "collected"  # of survey/collected.py: what a query answers, as a frame

TABLE = "a table: a row for each cell, stratum, PSU, level or value of a declared list"
ONE_ROW = "one row, or one number"
REFUSED = "records in memory: refused on a cluster before (refuse_on_cluster, need_of_memory)"
FILES = "synthetic or public files, which are here"
HELD = "asked only of records in memory"
SAMPLE = "a sample, and the evidence says so"
ALLOWED = {
    "cluster.py": {
        "summaries": "a few bytes of each partition, or records that are here",
        "brought": "public columns, which a release publishes as they are, a block at a time",
    },
    "survey/survey.py": {
        "n": ONE_ROW,
        "frame": "the user's own call; of ours, each is in this list",
        "batches": "files are written from records that are here",
        "_weight_facts": ONE_ROW,
        "_holds_others": TABLE,
        "_check_levels": ONE_ROW,
        "_as_table": "a lazy frame of polars",
        "taken": "of records on a cluster `sampled` has taken a sample before",
    },
    "survey/collected.py": {"collected": "those who call it are in this list"},
    "survey/partition_work.py": {
        "in_partitions": "records that are here, a part at a time",
        "in_pieces": "records that are here, a piece at a time",
        "gathered": "what is made of each partition: sums, extremes, few arrays",
        "_batched": "records that are here, a block at a time",
        "_worked": "on a worker",
        "_made_of_blocks": "on a worker",
        "_in_batches": "on a worker",
    },
    "survey/predictor_cells.py": {"__init__": TABLE, "lookup": "the cells of a table that is here"},
    "survey/rows_here.py": {"blocks_of": "a file that is here"},
    "in_place.py": {"why_not_in_place": ONE_ROW},
    "publication.py": {
        "outcome_ground": "of records in memory; in place the public columns stay there",
        "file_ground": "only with columns that are kept: refused on a cluster",
    },
    "models/public_totals.py": {"public_totals": TABLE, "scaled_weights": FILES},
    "fitting/placed_records.py": {"_check_values": ONE_ROW},
    "mechanisms/outputs/outcome_draws.py": {"datasets": FILES},
    "mechanisms/outcome_files.py": {"_made_there": TABLE},
    "survey/read.py": {"_loaded": "never on a cluster", "_large": ONE_ROW},
    "tables/calibration_hint.py": {"_varied": TABLE},
    "tables/coded_on_spark.py": {"_counted": TABLE, "cells": TABLE, "_with_psus": TABLE},
    "tables/coded_records.py": {"coded_records": "on a cluster coded_on_spark.py counts"},
    "tables/collect.py": {"collect": TABLE, "summed": TABLE, "_without_idle": ONE_ROW},
    "tables/cross_table.py": {
        "records": FILES,
        "cross_tabulate": TABLE,
        "_by_columns": TABLE,
        "possible_cells": "the cells of a table that is here",
        "_levels": TABLE,
    },
    "tables/design_records.py": {"__init__": REFUSED, "calibration_matrix": REFUSED},
    "tables/first_look.py": {"pivots": ONE_ROW, "_first": "of a file that is here alone"},
    "tables/influence/ask.py": {"_levels": FILES, "_cells": FILES},
    "tables/influence/question.py": {"_numbers": FILES, "unit_number": FILES, "read": FILES},
    "tables/record_statistic.py": {"__init__": REFUSED},
    "tables/regress.py": {"fit_survey": REFUSED, "_model_matrix": REFUSED},
    "tables/replicates.py": {"refuse_unknown": ONE_ROW},
    "tables/rules.py": {"_evaluated": FILES},
    "tables/sorted_records.py": {
        "__init__": "on a cluster woodruff.py asks by queries",
        "_batches": "on a cluster woodruff.py asks by queries",
    },
    "tables/statistics/proportion.py": {"spread_out": TABLE},
    "tables/units.py": {
        "refuse_missing_ids": ONE_ROW,
        "unit_codes": REFUSED,
        "values_within_limit": HELD,
    },
    "tables/woodruff.py": {"_inverse": TABLE},
    "influence.py": {"influence": ONE_ROW, "_units": ONE_ROW},
    "corrected_table.py": {"noisy_sums": ONE_ROW},
    "synthesis.py": {"envelope": FILES},
    "mechanisms/laplace_table.py": {
        "laplace_table": REFUSED,
        "_refuse_blanks": REFUSED,
        "_tables": REFUSED,
        "_numbers": REFUSED,
    },
    "mechanisms/whole_file/files.py": {"further_file": FILES},
    "mechanisms/whole_file/files_there.py": {"_grouped": TABLE, "_levels": TABLE},
    "release/confidential_file.py": {
        "_left_here": HELD,
        "_left_there": ONE_ROW,
        "_values": TABLE,
        "_inside": HELD,
        "public_order": "only with columns that are kept: refused on a cluster",
        "in_order": "only with columns that are kept: refused on a cluster",
        "sampled": SAMPLE,
        "with_whole_codes": HELD,
    },
    "release/envelope.py": {"_sorted": FILES},
    "release/outside.py": {"_published": FILES},
    "release/rehearsal.py": {"rehearsed": FILES, "_halves": SAMPLE},
    "release/rule_notes.py": {"rule_notes": SAMPLE},
    "release/shape.py": {"_commonest": ONE_ROW},
    "release/totals.py": {"_compared": TABLE},
    "risk/kept.py": {"kept_combinations": ONE_ROW},
    "risk/by_pattern.py": {
        "risk_weight_table": ONE_ROW,
        "_checked": ONE_ROW,
        "_check_id": ONE_ROW,
        "_joined": ONE_ROW,
    },
    "risk/pieces.py": {"large_patterns": "a row for each very large pattern", "_ends": TABLE},
    "verify/confidential.py": {
        "__init__": "in the store `memory`, which a cluster has not",
        "units": ONE_ROW,
        "run": "a row for each partition; fits and shuffles are refused on a cluster",
    },
    "verify/released.py": {"_cells": FILES},
}


def bringing(text: str) -> set[str]:
    """The functions of a file that ask for the rows of a query."""
    functions: set[str] = set()

    def look(node: ast.AST, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef) else function
            called = child.func if isinstance(child, ast.Call) else None
            if (isinstance(called, ast.Attribute) and called.attr in BRINGS) or (
                isinstance(called, ast.Name) and called.id == COLLECTED
            ):
                functions.add(inner)
            look(child, inner)

    look(tree_of(text), "")
    return functions


def files() -> list[Path]:
    parts = [SOURCE / part for part in ROAD]
    return sorted(f for part in parts for f in ([part] if part.is_file() else part.rglob("*.py")))


def test_what_comes_from_a_cluster_is_listed_with_its_reason() -> None:
    calls = {str(f.relative_to(SOURCE)): bringing(f.read_text(encoding="utf-8")) for f in files()}
    assert {name: names for name, names in calls.items() if names} == {
        name: set(reasons) for name, reasons in ALLOWED.items()
    }


@pytest.mark.parametrize(
    "line",
    [
        "return survey.raw.to_polars()",
        "x = survey.frame()['x']",
        "for b in t.to_pyarrow_batches(): b",
    ],
)
def test_a_call_that_is_not_listed_is_seen(line: str) -> None:
    assert bringing(f"def new(survey, t):\n    {line}\n") == {"new"}
