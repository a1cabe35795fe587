"""The page in headless Chromium: typing, clicking, addresses, and what axe-core says."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import QUERY, Server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium here: the page is not tested", allow_module_level=True)

expect = playwright.expect
BEFORE, AFTER = '[data-system="dual_encoder"]', '[data-system="gnn_encoder_plus"]'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    """An open page, in which nothing may fail; parametrized indirectly with options of its browser context."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})})
    made, errors = context.new_page(), []
    made.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.goto(server.url)
    yield made
    context.close()
    assert [error for error in errors if "Failed to load resource" not in error] == []


def search(page: Any, query: str = QUERY) -> None:
    page.get_by_role("searchbox").fill(query)
    page.keyboard.press("Enter")
    expect(page.locator(f"{AFTER} .hit")).to_have_count(10)


def test_typing_shows_both_systems_and_what_moved(page: Any, server: Server) -> None:
    search(page)
    before, after = (
        server.get("/search", query=QUERY, system=system).json()["hits"]
        for system in ("dual_encoder", "gnn_encoder_plus")
    )
    for side, title, hits in ((BEFORE, "M_de", before), (AFTER, "GNN-encoder + labels + query bank", after)):
        expect(page.locator(f"{side} h2")).to_have_text(title)
        cards = page.locator(f"{side} .hit")
        assert cards.evaluate_all("all => all.map(one => one.dataset.pid)") == [hit["pid"] for hit in hits]
        assert cards.locator(".text").all_text_contents() == [hit["text"] for hit in hits]
    places = {hit["pid"]: hit["rank"] for hit in before}
    for card, hit in zip(page.locator(f"{AFTER} .hit").all(), after, strict=True):
        old = places.get(hit["pid"], 0)
        by = old - hit["rank"]
        told = "new" if not old else f"▲ {by}" if by > 0 else f"▼ {-by}" if by else ""
        assert card.locator(".move").all_text_contents() == ([told] if told else [])
    gone = len(set(places) - {hit["pid"] for hit in after})
    expect(page.locator(f"{BEFORE} .gone")).to_have_count(gone)
    assert 0 < gone < 10  # or else the test has shown little
    marks = {mark.lower() for mark in page.locator("mark").all_text_contents()}
    assert "milk" in marks and marks <= {"which", "milk", "halloumi", "made", "with"}


def test_the_address_holds_the_search(page: Any, server: Server) -> None:
    expect(page.locator("#examples a").first).to_have_text(server.get("/systems").json()["examples"][0])
    page.locator("#examples a").first.click()
    expect(page.locator(f"{AFTER} .hit")).to_have_count(10)
    search(page)
    address = page.url
    assert "q=Which+milk" in address and "left=dual_encoder" in address and "right=gnn_encoder_plus" in address
    page.get_by_label("Before").select_option("")
    expect(page.locator(BEFORE)).to_have_count(0)
    page.go_back()
    expect(page.locator(f"{BEFORE} .hit")).to_have_count(10)
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_role("searchbox")).to_have_value(QUERY)
    expect(page.locator(f"{AFTER} .hit")).to_have_count(10)


def test_why_shows_the_graph_at_work(page: Any, server: Server) -> None:
    """The passage is the best one that several queries inform; the page gets it as GNN-encoder's only result."""
    search(page)
    assert page.locator(f"{BEFORE} button").count() == 0  # M_de has no graph
    answer = server.get("/search", query=QUERY, k=100).json()
    explained = ((hit["pid"], server.get("/explain", pid=hit["pid"]).json()) for hit in answer["hits"])
    pid, told = next((pid, one) for pid, one in explained if one["n_queries"] > 1)
    answer["hits"] = [hit for hit in answer["hits"] if hit["pid"] == pid]
    page.route("**/search?*system=gnn_encoder_plus", lambda route: route.fulfill(json=answer))
    page.get_by_role("button", name="Search").click()
    expect(page.locator(f"{AFTER} .hit")).to_have_count(1)
    page.locator(f'{AFTER} [data-pid="{pid}"]').get_by_role("button", name="Why").click()
    panel = page.get_by_role("region", name=f"Why passage {pid}")
    expect(panel).to_contain_text(f"gate is {100 * told['gate']:.1f}% open", timeout=60_000)
    expect(panel).to_contain_text(f"moved by {told['shift']:.3f}")
    bars = panel.locator(".bars li")
    names = [one["text"] + " labelled" * one["labelled"] for one in told["queries"]] + ["the passage itself"]
    assert bars.locator("> span:first-child").all_text_contents() == names
    widths = bars.locator(".bar i").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    attention = [one["attention"] for one in told["queries"]] + [told["attention_to_itself"]]
    shares = [value / max(attention) for value in attention]
    assert [width / max(widths) for width in widths] == pytest.approx(shares, abs=0.02)
    page.get_by_role("button", name="Why").and_(page.locator('[aria-expanded="true"]')).click()
    expect(panel).to_have_count(0)


def test_errors_are_told_and_texts_cannot_become_markup(page: Any) -> None:
    text = "<img src=x onerror=alert(1)><script>alert(2)</script> 🦻 milk"
    hit = {"rank": 1, "score": 1, "pid": "<b>", "title": text, "text": text}
    page.get_by_role("searchbox").fill("milk")
    page.route("**/search?*", lambda route: route.abort())
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("server does not answer")
    page.route("**/search?*", lambda route: route.fulfill(status=503, json={"detail": "too many queries wait"}))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("too many queries wait")
    answer = {"system": "gnn_encoder_plus", "milliseconds": 1, "hits": [hit]}
    page.route("**/search?*", lambda route: route.fulfill(json=answer))
    page.keyboard.press("Enter")
    expect(page.locator(".text").first).to_have_text(text)
    assert page.locator("main img, main script, main b").count() == 0
    assert page.locator(".text mark").first.text_content() == "milk"


DARK_PHONE = {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}}


@pytest.mark.parametrize("page", [{}, DARK_PHONE], indirect=True, ids=["light", "dark-phone"])
def test_axe_finds_no_violations_and_nothing_is_beside_the_screen(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

    def violations() -> list[tuple[str, list[str]]]:
        found = axe.Axe().run(page).response["violations"]
        return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]

    expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()
    assert violations() == []
    search(page)
    page.get_by_role("button", name="Why").first.click()
    expect(page.locator(".bars")).to_be_visible(timeout=60_000)
    assert violations() == []
    assert page.evaluate("document.documentElement.scrollWidth === innerWidth")
