"""A release that its own thresholds call red is not finished without a reason."""

from __future__ import annotations

import json
from pathlib import Path

from understudy.errors import Refused


def check_verdict(evidence: Path, accept: str, binding: bool) -> dict[str, str]:
    """Verdict and reason for the internal manifest; refused when it is red without a reason and the
    release binds itself to its verdict (`publish._binds`).

    What was spent is kept: the same command with a reason goes on from here.
    """
    document = json.loads((evidence / "evidence.json").read_text(encoding="utf-8"))
    colour = str(document["fitness"]["verdict"])
    if binding and colour == "red" and not accept.strip():
        raise Refused(
            f"{document['summary'][0]} Look at `{evidence / 'report.html'}`; nothing is published "
            "yet, and nothing is spent again: run the same command with --accept and the reason "
            "for a release all the same, or change the recipe."
        )
    return {"verdict": colour, "accepted": accept.strip() if colour == "red" else ""}
