"""What the codebook's rules changed in the files of a release, in words.

It costs nothing: files are drawn from public tables, and rules are public."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.report.numbers import fixed, listed, percent
from understudy.survey.survey import Survey
from understudy.tables.ruled_file import RuledFile

MOST_RULES = 5


def rule_effects(made: Sequence[Survey]) -> str:
    """How many records broke a rule as they were drawn, and how far mending them moved the measured
    tables, on average over the files; nothing where no rule can be broken."""
    files = [file for file in made if isinstance(file, RuledFile)]
    broken = {rule for file in files for rule in file.effects.broken}
    if not broken:
        return ""
    records = sum(file.n for file in files)
    if not any(file.effects.changed for file in files):
        return "Every record keeps the codebook's rules, and did so as it was drawn."
    changed = sum(file.effects.changed for file in files) / records
    shares = {r: sum(f.effects.broken.get(r, 0) for f in files) / records for r in sorted(broken)}
    worst = sorted((r for r in shares if shares[r]), key=lambda rule: -shares[rule])
    some = "; those that were broken most" if len(worst) > MOST_RULES else ""
    rules = listed([f"`{rule}` by {percent(shares[rule])}" for rule in worst[:MOST_RULES]])
    tables = {table for file in files for table in file.effects.moved}
    moved = {
        table: float(np.mean([file.effects.moved.get(table, 0.0) for file in files]))
        for table in sorted(tables)
    }
    largest = max(moved, key=lambda table: moved[table])
    return (
        f"Every record keeps the codebook's rules; for that {percent(changed)} of the records were "
        f"changed after they had been drawn (broken{some}: {rules}). This moved the "
        f"{len(moved):,} measured tables with a column that a rule names by a total variation of "
        f"{fixed(np.mean([*moved.values()]), 3)} on average, most of all "
        f"{' by '.join(map(files[0].codebook.label, largest))}, by {fixed(moved[largest], 3)}."
    )
