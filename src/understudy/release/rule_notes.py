"""Records of the confidential file that break the codebook's rules; in released files none does.

For the steward's eyes (`--dry-run`): a rule that many records break is a mistake in the codebook.
"""

from __future__ import annotations

from understudy.mechanisms.outputs.output import without_drafts
from understudy.models.contract import FileModel, Model
from understudy.release.confidential_file import sampled
from understudy.survey.survey import Survey
from understudy.tables.rules import Rules


def rule_notes(survey: Survey, model: Model) -> list[str]:
    """One sentence with all rules that are broken, those that most records break first."""
    codebook = without_drafts(survey.codebook, survey.columns)  # a draft is nobody's rule
    rules = Rules(codebook, survey.columns)
    if not isinstance(model, FileModel) or not rules.any:
        return []
    seen = sampled(survey, "rules")
    frame = seen.raw.select(list(rules.columns)).to_polars()
    broken = {rule: int(flags.sum()) for rule, flags in rules.broken(frame).items()}
    parts = [
        f"`{rule}` {count:,}"
        for rule, count in sorted(broken.items(), key=lambda item: -item[1])
        if count
    ]
    if not parts:
        return []
    of = "the file" if seen.n == survey.n else f"a sample of {seen.n:,}"
    return [
        f"Records of {of} that break a rule of the codebook: {', '.join(parts)}. In the "
        "released files none will; where they are many, correct the rule (or say `blanks = true` "
        "of a question that may be left empty)."
    ]
