"""Steps that tests of pages share: sign in, look, measure, ask axe-core."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from web_samples import Site

SHOTS = os.environ.get("UNDERSTUDY_SCREENSHOTS")  # a folder, to look at every page


def sign_in(page: Any, site: Site, user: str) -> None:
    page.goto("/sign-in")
    page.get_by_label("Your key").fill(site.keys[user])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()


def shoot(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


def fits(page: Any) -> bool:
    """No page is wider than the screen, and no cell of a table, which loses its head on a narrow
    one, lacks a label."""
    page.wait_for_load_state()  # on a busy machine its style may come after its words
    wide: int = page.evaluate("document.documentElement.scrollWidth")
    bare = page.locator("td:not([data-label]):not(:empty)").count()
    return wide <= int(page.viewport_size["width"]) and not bare


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong with the page for those who do not see it."""
    page.wait_for_load_state()
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    said = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in said
        for node in each["nodes"]
    ]
