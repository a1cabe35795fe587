"""The page in headless Chromium: typing, clicking, keys, addresses, and what axe-core says."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium here: the page is not tested", allow_module_level=True)

QUERY = "Which milk is halloumi made with?"
expect = playwright.expect


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def errors() -> list[str]:
    """What the browser complains of, such as a blocked script."""
    return []


@pytest.fixture
def page(browser: Any, server: Server, errors: list[str], request: pytest.FixtureRequest) -> Iterator[Any]:
    """An open page; parametrized indirectly with options of its browser context."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})})
    made = context.new_page()
    made.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.goto(server.url)
    yield made
    context.close()


def search(page: Any, query: str = QUERY) -> None:
    page.get_by_role("searchbox").fill(query)
    page.keyboard.press("Enter")
    expect(page.locator(".right .hit")).to_have_count(10)


def results(server: Server, system: str) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = server.get("/search", query=QUERY, system=system, k=10).json()["hits"]
    return hits


def test_typing_shows_both_systems_and_what_moved(page: Any, server: Server, errors: list[str]) -> None:
    search(page)
    before, after = results(server, "dual_encoder"), results(server, "gnn_encoder")
    for side, title, hits in ((".left", "M_de", before), (".right", "GNN-encoder", after)):
        expect(page.locator(f"{side} h2")).to_contain_text(title)
        assert page.locator(f"{side} .hit").evaluate_all("all => all.map(one => one.dataset.pid)") == [
            hit["pid"] for hit in hits
        ]
    places = {hit["pid"]: hit["rank"] for hit in before}
    for card, hit in zip(page.locator(".right .hit").all(), after, strict=True):
        old = places.get(hit["pid"])
        told = "new" if old is None else "" if old == hit["rank"] else f"▲ {old - hit['rank']}"
        if old is not None and old < hit["rank"]:
            told = f"▼ {hit['rank'] - old}"
        assert card.locator(".move > [aria-hidden]").all_text_contents() == ([told] if told else [])
        assert card.locator(".text").text_content() == hit["text"]
    gone = len(set(places) - {hit["pid"] for hit in after})
    expect(page.locator(".left .gone")).to_have_count(gone)
    assert 0 < gone < 10  # or else the test has shown little
    marks = {mark.lower() for mark in page.locator("mark").all_text_contents()}
    assert "milk" in marks and marks <= {"milk", "milks", "halloumi", "made"}
    expect(page.get_by_role("status")).to_contain_text("Of the first 10")
    assert errors == []


def test_who_types_before_the_systems_are_known_is_answered(page: Any, server: Server) -> None:
    def late(route: Any) -> None:
        time.sleep(1)
        route.continue_()

    page.route("**/systems*", late)
    page.goto(server.url, wait_until="domcontentloaded")  # page.js has run, its first request is under way
    page.get_by_role("searchbox").fill(QUERY)
    page.keyboard.press("Enter")
    expect(page.locator(".left .hit")).to_have_count(10, timeout=20_000)
    expect(page.locator(".right .hit")).to_have_count(10)
    assert "left=dual_encoder" in page.url and "right=gnn_encoder" in page.url


def test_the_address_holds_the_search(page: Any, server: Server) -> None:
    search(page)
    address = page.url
    assert "q=Which+milk" in address and "left=dual_encoder" in address and "right=gnn_encoder" in address
    page.get_by_label("Before").select_option("")
    expect(page.locator(".left")).to_have_count(0)
    page.go_back()
    expect(page.locator(".left .hit")).to_have_count(10)
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_role("searchbox")).to_have_value(QUERY)
    expect(page.locator(".right .hit")).to_have_count(10)
    page.goto(server.url)
    expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()


def test_examples_are_searched_with_a_click(page: Any, server: Server) -> None:
    first = server.get("/systems").json()["examples"][0]
    page.get_by_role("link", name=first).click()
    expect(page.get_by_role("searchbox")).to_have_value(first)
    expect(page.locator(".right .hit")).to_have_count(10)
    expect(page.locator("#welcome")).to_be_hidden()


def test_why_shows_the_graph_at_work(page: Any, server: Server, errors: list[str]) -> None:
    """The passage is the best one that several queries inform; the page gets it as its only result."""
    answer = server.get("/search", query=QUERY, k=100, marks=True).json()
    every = (server.get("/explain", query=QUERY, pid=hit["pid"]).json() for hit in answer["hits"])
    told = next(one for one in every if one["graph"]["n_queries"] > 1)
    answer["hits"] = [hit for hit in answer["hits"] if hit["pid"] == told["pid"]]
    page.route("**/search?*", lambda route: route.fulfill(json=answer))
    page.get_by_role("searchbox").fill(QUERY)
    page.keyboard.press("Enter")
    page.locator(".right").get_by_role("button", name="Why").click()
    panel = page.get_by_role("region", name=f"Why passage {told['pid']}")
    for one in (told["before"], told["after"]):
        expect(panel).to_contain_text(f"{one['title']}{one['score']:.3f}rank {one['rank']}", timeout=60_000)
    expect(panel).to_contain_text("compare the ranks")
    graph = told["graph"]
    expect(panel).to_contain_text(f"gate {100 * graph['gate']:.1f}% open")
    expect(panel).to_contain_text(f"moved by {graph['shift']:.3f}")
    bars = panel.locator(".bars li")
    names = [one["text"] for one in graph["queries"]] + ["the passage itself"]
    assert [bar.locator("span").first.evaluate("one => one.firstChild.data.trim()") for bar in bars.all()] == names
    tags = {tag for one in graph["queries"] for tag in ("labelled" if one["labelled"] else "", one["kind"])}
    meaning = {"labelled": "this passage is a known answer to it", "unlabelled": "no answer to it is known"}
    legend = "; ".join(f"{tag}: {text}" for tag, text in meaning.items() if tag in tags)
    assert panel.locator(".legend").all_text_contents() == ([f"{legend}."] if legend else [])
    labelled = [f"{one['text']} labelled" for one in graph["queries"] if one["labelled"]]
    assert panel.locator(".labelled > span:first-child").all_text_contents() == labelled
    widths = panel.locator(".bars .bar i").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    attention = [one["attention"] for one in graph["queries"]] + [graph["attention_to_itself"]]
    for width, value in zip(widths, attention, strict=True):
        assert width / max(widths) == pytest.approx(value / max(attention), abs=0.02)
    page.unroute("**/search?*")
    search(page)
    page.locator(".left .hit").first.get_by_role("button", name="Why").click()
    expect(page.locator(".left .why")).to_contain_text("M_de has no graph")
    assert errors == []


def test_a_slash_is_typed_only_behind_other_characters(page: Any) -> None:
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("/km/h")
    expect(page.get_by_role("searchbox")).to_have_value("km/h")


def test_the_keyboard_does_it_all(page: Any) -> None:
    focused = "document.activeElement.closest('.hit')?.querySelector('.rank').firstChild.data"
    side = "document.activeElement.closest('.column').classList[1]"
    search(page)
    page.keyboard.press("ArrowDown")
    assert (page.evaluate(focused), page.evaluate(side)) == ("1", "right")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "3"
    page.keyboard.press("k")
    page.keyboard.press("ArrowLeft")
    assert (page.evaluate(focused), page.evaluate(side)) == ("2", "left")
    page.keyboard.press("l")
    page.keyboard.press("Enter")
    expect(page.locator(".right .hit.open .scores")).to_be_visible(timeout=60_000)
    page.keyboard.press("Escape")
    expect(page.locator(".why")).to_have_count(0)
    assert (page.evaluate(focused), page.evaluate(side)) == ("2", "right")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("polo")
    expect(page.get_by_role("searchbox")).to_have_value("polo")  # a typed j or k moves nothing
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).to_have_value("polo")
    assert page.evaluate("document.activeElement.id") != "query"


def test_errors_are_told_and_can_be_tried_again(page: Any) -> None:
    body = json.dumps({"detail": "3 queries wait already"})
    page.route(
        "**/search?*", lambda route: route.fulfill(status=503, body=body, content_type="application/problem+json")
    )
    page.get_by_role("searchbox").fill(QUERY)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("3 queries wait already")
    page.unroute("**/search?*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".right .hit")).to_have_count(10)
    expect(page.get_by_role("alert")).to_be_empty()
    page.route("**/explain?*", lambda route: route.abort())
    page.locator(".right .hit").first.get_by_role("button", name="Why").click()
    expect(page.locator(".right .why")).to_contain_text("The server does not answer")


def test_texts_cannot_become_markup(page: Any, errors: list[str]) -> None:
    text = "<img src=x onerror=alert(1)><script>alert(2)</script> 🦻 milk"
    hit = {"rank": 1, "score": 1, "pid": "<b>", "title": text, "text": text, "marks": {"title": [], "text": [[55, 59]]}}
    answer = {"query": "milk", "system": "gnn_encoder", "milliseconds": 1, "hits": [hit]}
    page.route("**/search?*", lambda route: route.fulfill(json=answer))
    page.get_by_role("searchbox").fill("milk")
    page.keyboard.press("Enter")
    expect(page.locator(".right .text")).to_have_text(text)
    assert page.locator("main img, main script, main b").count() == 0
    assert page.locator(".right .text mark").text_content() == "".join(list(text)[55:59])
    assert errors == []


@pytest.mark.parametrize("page", [{"viewport": {"width": 360, "height": 740}}], indirect=True)
def test_a_phone_shows_one_system_at_a_time_and_nothing_beside_the_screen(page: Any) -> None:
    search(page)
    expect(page.locator(".left .hit").first).to_be_hidden()
    page.get_by_role("button", name="M_de").click()
    expect(page.locator(".left .hit").first).to_be_visible()
    expect(page.locator(".right .hit").first).to_be_hidden()
    page.locator(".left .hit").first.get_by_role("button", name="Why").click()
    expect(page.locator(".left .scores")).to_be_visible(timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator(".left .foot button").first.bounding_box()["height"] >= 24


@pytest.mark.parametrize(
    "page",
    [
        {"color_scheme": scheme, "viewport": {"width": width, "height": 900}, "reduced_motion": "reduce"}
        for scheme, width in (("light", 1280), ("dark", 360))
    ],
    indirect=True,
    ids=lambda options: f"{options['color_scheme']}-{options['viewport']['width']}",
)
def test_axe_finds_no_violations(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()
    assert violations(axe, page) == []
    search(page)
    page.locator(".right .hit").first.get_by_role("button", name="Why").click()
    expect(page.locator(".right .scores")).to_be_visible(timeout=60_000)
    page.locator(".right .hit").nth(1).hover()
    assert violations(axe, page) == []


def violations(axe: Any, page: Any) -> list[tuple[str, list[str]]]:
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
