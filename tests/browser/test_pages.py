"""The pages in a real browser: the analyst's path, the steward's path, and what goes wrong."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser_steps import fits, shoot, sign_in, violations
from web_samples import Site

pytestmark = pytest.mark.any_noise


def choose(page: Any, words: str) -> None:
    page.goto("/ask")
    page.get_by_label(words).check()
    page.get_by_role("button", name="Next").click()


def test_the_whole_path_of_an_analyst(page: Any, site: Site, tmp_path: Path) -> None:
    before = site.ledger.budget("user", "ann").spent
    page.goto("/")
    assert page.url.endswith("/sign-in")
    shoot(page, "sign-in")
    sign_in(page, site, "ann")
    shoot(page, "choose")
    choose(page, "Mean of a number")
    page.get_by_label("Variable").select_option("salary")
    page.get_by_text("Gender (gender)").first.click()
    page.get_by_label("Female").first.check()
    page.get_by_label("Epsilon to spend").fill("0.5")
    assert page.get_by_text("What it cannot say").count() == 3  # one for each measure
    shoot(page, "details")
    page.get_by_role("button", name="Show price and plan").click()
    page.get_by_role("heading", name="Mean of salary where gender is Female").wait_for()
    assert "epsilon 0.5" in page.get_by_text("This question costs").locator("..").inner_text()
    assert "left" in page.get_by_text("Your budget").first.locator("..").inner_text()
    assert page.locator("svg[role=img]").count() == 2
    assert site.ledger.budget("user", "ann").spent == before
    shoot(page, "price")
    assert violations(page) == []
    page.get_by_role("button", name="Change the question").click()
    assert page.get_by_label("Epsilon to spend").input_value() == "0.5"
    assert page.get_by_label("Female").first.is_checked()
    page.get_by_role("button", name="Show price and plan").click()
    page.get_by_role("button", name="Ask and spend epsilon 0.5").click()
    page.get_by_role("heading", name=re.compile("likely within your tolerance")).wait_for()
    assert site.ledger.budget("user", "ann").spent == before + 500_000
    assert "confidential estimate differs" in page.locator(".lead").inner_text()
    assert page.get_by_role("heading", name="What it cannot say").is_visible()
    shoot(page, "answer")
    assert violations(page) == []
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download the receipt").click()
    saved.value.save_as(tmp_path / "receipt.json")
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert receipt["query"]["domain"] == [{"column": "gender", "levels": ["Female"]}]
    assert site.service.receipt("ann", receipt["receipt"]).noisy == receipt["noisy"]
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name=str(receipt["receipt"]), exact=True).click()
    page.get_by_role("heading", name=re.compile("likely within")).wait_for()
    page.goto("/history")
    shoot(page, "history")
    page.get_by_role("button", name="Sign out").click()
    page.goto("/history")
    assert page.url.endswith("/sign-in")


def test_agreement_says_what_it_cannot_say(page: Any, site: Site) -> None:
    sign_in(page, site, "ann")
    choose(page, "Proportion with a property")
    page.get_by_label("Property").select_option(label="Gender = Female")
    page.get_by_label(re.compile("^Agreement")).check()
    page.get_by_role("button", name="Show price and plan").click()
    page.get_by_role("button", name=re.compile("^Ask and spend")).click()
    page.get_by_role("heading", name=re.compile("A part agrees")).wait_for()
    assert "hardly tells whether" in page.locator(".lead").inner_text()
    shoot(page, "answer-agreement")
    page.get_by_role("link", name="Ask another question").click()
    choose(page, "Mean of a number")
    page.get_by_label("Epsilon to spend").fill("0.25")
    page.get_by_role("button", name="Show price and plan").click()
    page.get_by_label("One more estimate").select_option(label="Proportion with a property")
    page.get_by_role("button", name="Add an estimate").click()
    page.get_by_role("heading", name="Another estimate").wait_for()
    for _ in range(2):  # the details of one more, and the price of both
        assert violations(page) == []
        for width in (390, 1100):
            page.set_viewport_size({"width": width, "height": 900})
            assert fits(page)
            shoot(page, f"{page.title().split()[0]}-further-{width}")
        if page.get_by_role("button", name="Show price and plan").count():
            page.get_by_role("button", name="Show price and plan").click()
            page.get_by_role("button", name=re.compile("^Ask and spend")).wait_for()
    page.get_by_role("button", name=re.compile("^Ask and spend")).click()
    page.get_by_role("heading", name="2 numbers are likely").wait_for()
    assert violations(page) == []
    shoot(page, "answer-several")


def test_a_regression_coefficient_can_be_asked_by_the_form(page: Any, site: Site) -> None:
    sign_in(page, site, "ann")
    choose(page, "Coefficient of a linear regression")
    page.get_by_label("Outcome").select_option("salary")
    page.get_by_role("group", name="Predictors").get_by_label("Gender (gender)").check()
    page.get_by_label("Coefficient of").select_option(label="Gender = Female")
    page.get_by_text("Settings that rarely need").click()
    page.get_by_label("Parts of the file").fill("4")
    page.get_by_role("button", name="Show price and plan").click()
    page.get_by_role("button", name=re.compile("^Ask and spend")).click()
    page.get_by_role("heading", name=re.compile("likely within")).wait_for()
    assert "Linear coefficient of gender = Female" in page.locator(".steps").inner_text()


def test_mistakes_are_named_at_their_field_and_cost_nothing(page: Any, site: Site) -> None:
    before = list(site.ledger.entries())
    sign_in(page, site, "ann")
    choose(page, "Ratio of two numbers")
    page.get_by_label("Epsilon to spend").fill("nan")
    page.get_by_label("Tolerance").fill("wide")
    page.get_by_role("button", name="Show price and plan").click()
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "nothing was spent" in alert.inner_text()
    assert "plain decimal" in alert.inner_text()
    assert page.get_by_label("Epsilon to spend").get_attribute("aria-invalid") == "true"
    assert page.get_by_label("Epsilon to spend").input_value() == "nan"
    shoot(page, "mistakes")
    assert list(site.ledger.entries()) == before


def test_an_empty_budget_is_said_before_and_at_the_last_step(page: Any, site: Site) -> None:
    sign_in(page, site, "poor")
    choose(page, "Mean of a number")
    page.get_by_label("Variable").select_option("salary")
    page.get_by_role("button", name="Show price and plan").click()
    assert "does not allow" in page.get_by_role("alert").inner_text()
    button = page.get_by_role("button", name=re.compile("^Ask and spend"))
    assert button.is_disabled()
    shoot(page, "empty-budget")
    page.evaluate("document.querySelector('button[disabled]').disabled = false")
    button.click()
    page.get_by_role("heading", name="The budget does not allow this").wait_for()
    assert "0.3 is left of your budget" in page.get_by_role("alert").inner_text()
    shoot(page, "refused")
    assert violations(page) == []
    assert site.ledger.budget("user", "poor").spent == 0


def test_a_wrong_key_is_refused_in_one_sentence(page: Any, site: Site) -> None:
    page.goto("/sign-in")
    page.get_by_label("Your key").fill("us_0123456789abcdef_" + "x" * 43)
    page.get_by_role("button", name="Sign in").click()
    assert "not known" in page.get_by_role("alert").inner_text()
    shoot(page, "wrong-key")
    page.goto("/ask")
    assert page.url.endswith("/sign-in")
    assert site.ledger.budget("user", "ann").allowed == 5_000_000


def test_the_whole_path_of_a_steward(page: Any, site: Site, tmp_path: Path) -> None:
    sign_in(page, site, "stella")
    page.get_by_role("heading", name="Who spent what").wait_for()
    shoot(page, "overview")
    page.get_by_role("link", name="Users").click()
    page.get_by_label("Name").fill("carla")
    page.get_by_label("First grant of epsilon").fill("1.5")
    page.get_by_role("button", name="Add", exact=True).click()
    code = page.locator("#new-code").inner_text()
    shoot(page, "users")
    page.get_by_label("User", exact=True).select_option("carla")
    page.get_by_label("Epsilon to add").fill("0.25")
    page.get_by_role("button", name="Grant").click()
    page.get_by_role("row", name=re.compile("carla analyst")).wait_for()
    assert page.locator("#new-code").count() == 0
    assert site.ledger.budget("user", "carla").allowed == 1_750_000
    page.get_by_role("button", name="Shut out carla").click()
    page.get_by_text("(shut out)").wait_for()
    page.get_by_role("button", name="Let in carla").click()
    page.get_by_label("Epsilon to add").fill("much")
    page.get_by_role("button", name="Grant").click()
    assert "plain decimal" in page.get_by_role("alert").inner_text()
    page.get_by_role("link", name="Ledger").click()
    page.get_by_role("heading", name="Ledger").wait_for()
    shoot(page, "ledger")
    assert "salary" not in page.content()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export all").click()
    saved.value.save_as(tmp_path / "ledger.csv")
    rows = list(csv.DictReader((tmp_path / "ledger.csv").read_text().splitlines()))
    assert len(rows) == sum(1 for _ in site.ledger.entries())
    assert {"user": "carla", "epsilon": "0.25", "kind": "grant"}.items() <= rows[-3].items()
    page.goto("/history")
    assert "role does not allow" in page.get_by_role("alert").inner_text()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Pick up a key").click()
    page.get_by_label("Your code").fill(code)
    page.get_by_role("button", name="Show my key").click()
    site.keys["carla"] = page.locator("#new-key").inner_text()
    assert violations(page) == []
    sign_in(page, site, "carla")
    assert "epsilon 1.75" in page.content()


def test_every_page_fits_a_telephone_in_the_dark(chromium: Any, site: Site) -> None:
    """In light many of them are looked at in test_governance.py."""
    context = chromium.new_context(
        base_url=site.url, viewport={"width": 390, "height": 844}, color_scheme="dark"
    )
    page = context.new_page()
    page.goto("/sign-in")
    assert fits(page)
    shoot(page, "sign-in-390-dark")
    sign_in(page, site, "ann")
    assert fits(page)
    for estimator in ("mean", "difference", "logistic"):
        page.goto(f"/ask/details?dataset=doctorates&estimator={estimator}")
        assert fits(page)
        shoot(page, f"details-{estimator}-390-dark")
    page.goto("/ask/details?dataset=doctorates&estimator=mean")
    page.get_by_label("Tolerance").fill("3.5")
    page.get_by_role("button", name="Show price and plan").click()
    page.locator("svg[role=img]").first.wait_for()
    assert fits(page)
    shoot(page, "price-390-dark")
    page.get_by_role("button", name=re.compile("^Ask and spend")).click()
    page.locator(".lead").wait_for()
    assert fits(page)
    shoot(page, "answer-390-dark")
    page.goto("/history")
    assert fits(page)
    shoot(page, "history-390-dark")
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, site, "stella")
    for name in ("", "/users", "/ledger", "/inbox"):
        page.goto(f"/steward{name}")
        assert fits(page)
        shoot(page, f"steward{name.replace('/', '-')}-390-dark")
    context.close()


def test_the_forms_work_by_keyboard_alone(page: Any, site: Site) -> None:
    page.goto("/sign-in")
    page.locator("#key:focus").wait_for()
    page.keyboard.type(site.keys["ann"])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What do you want to check?").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_label("Mean of a number").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Mean of a number").wait_for()
    page.get_by_label("Epsilon to spend").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile("^Mean of")).wait_for()
    # Every control has a name that a screen reader can say.
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button,input:not([type=hidden]),select')]"
        ".filter(e => !(e.textContent.trim() || e.labels?.length || e.ariaLabel)).length"
    )
    assert unnamed == 0
