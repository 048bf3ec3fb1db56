"""A served survey and a real Chromium."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
sys.path.insert(0, str(Path(__file__).parent))

from web_samples import STAFF, Site, running

from understudy.demo.server import DESIGN, NAME, confidential
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.survey import Survey
from understudy.verify.confidential import ConfidentialData
from understudy.verify.released import ReleasedFiles
from understudy.verify.service import Remembered, Served, Service
from understudy.web.app import create_app

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        reason = "Chromium is not installed; run scripts/test-components"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Simulated doctorates; other samples of the same population stand for the release."""
    survey = confidential(1500, 1)
    public = [name for name in survey.columns if name != "person"]
    book = survey.codebook.only(public)
    others = [Survey(confidential(1500, s).frame(public), DESIGN, book) for s in (2, 3)]
    ledger = Ledger(tmp_path_factory.mktemp("site") / "ledger.db")
    data = ConfidentialData(NAME, survey, deadline=0.2)
    ledger.add_dataset(data.fingerprint, NAME, "20")
    keys = {name: add_user(ledger, name) for name in ("ann", "bob", "poor")}
    ledger.grant("ann", "5")
    ledger.grant("poor", "0.3")
    for name, role in STAFF.items():
        keys[name] = add_user(ledger, name, role)
    released = Remembered(ReleasedFiles(others, survey.codebook, "partial"))
    served = {NAME: Served(data, released, survey.codebook.title)}
    service = Service(ledger, served, 0.4, limit=5_000_000)
    app = create_app(service, requests_per_minute=100_000)
    with running(app) as url:
        yield Site(app, ledger, keys, url)


@pytest.fixture
def page(chromium: Any, site: Site) -> Iterator[Any]:
    context = chromium.new_context(base_url=site.url, viewport={"width": 1100, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(120_000)
    problems: list[str] = []
    opened.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    # A refusal's status is reported as an error of loading; anything else is a defect.
    assert [p for p in problems if "status of 4" not in p] == []
