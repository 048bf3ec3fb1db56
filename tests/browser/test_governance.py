"""Projects, requests, the inbox, the auditor's and the operator's pages; axe-core on every page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from browser_steps import fits, shoot, sign_in, violations
from web_samples import Site

pytestmark = pytest.mark.any_noise

PAGES = {
    "ann": ("/ask", "/ask/details?dataset=doctorates&estimator=mean", "/history", "/projects"),
    "stella": ("/steward", "/steward/inbox", "/steward/users", "/steward/ledger", "/key"),
    "audrey": ("/steward/inbox", "/steward/users"),
    "oscar": ("/operations",),
}


def press_to(page: Any, selector: str) -> None:
    """Tab on until the focus is there: everything is reached by keyboard."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
    raise AssertionError(f"{selector} is not reached by keyboard")


def test_a_request_goes_from_a_project_to_two_stewards_by_keyboard_alone(
    page: Any, site: Site
) -> None:
    sign_in(page, site, "bob")
    press_to(page, "a[href='/projects']")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Your projects").wait_for()
    press_to(page, "#open-title")
    page.keyboard.type("Wages by field")
    press_to(page, "#open-purpose")
    page.keyboard.type("A paper about wages.")
    press_to(page, "button:not(.plain)")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Ask for budget").wait_for()
    for field, text in (("dataset", "doctorates"), ("epsilon", "6"), ("why", "Three tables.")):
        press_to(page, f"#ask-{field}")
        page.keyboard.type(text)
    press_to(page, "button:not(.plain)")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Requests").wait_for()
    shoot(page, "projects")
    assert "open" in page.get_by_role("row", name=re.compile("Three tables")).inner_text()
    assert violations(page) == []
    for steward, after in (("stella", "approved by stella"), ("stan", "approved by stella, stan")):
        page.get_by_role("button", name="Sign out").click()
        sign_in(page, site, steward)
        page.get_by_role("navigation").get_by_role("link", name="Requests").click()
        shoot(page, f"inbox-{steward}")
        if steward == "stella":
            assert violations(page) == []
        press_to(page, "button[value=approve]")
        page.keyboard.press("Enter")
        page.get_by_text(after).wait_for()
    page.get_by_role("heading", name="Decided").wait_for()
    account = site.service.account("bob", "doctorates")
    assert account.budget.allowed == 6_000_000


@pytest.mark.parametrize("width", [1200, 390])
def test_no_page_is_closed_to_those_who_do_not_see_it(
    chromium: Any, site: Site, width: int
) -> None:
    """Every page at 1200; at 390, where tables become cards, those with tables."""
    context = chromium.new_context(base_url=site.url, viewport={"width": width, "height": 900})
    page = context.new_page()
    if width == 1200:
        for path in ("/sign-in", "/pick-up"):
            page.goto(path)
            assert violations(page) == []
    for user, paths in PAGES.items():
        sign_in(page, site, user)
        for path in paths:
            page.goto(path)
            assert fits(page), path
            shoot(page, f"{user}{path.split('?')[0].replace('/', '-')}-{width}")
            if width == 1200 or path in ("/steward/inbox", "/steward/users"):
                assert violations(page) == [], path
        page.get_by_role("button", name="Sign out").click()
    context.close()
