"""The page as people see it: opened from the disk in headless Chromium, which must ask nothing of anybody.

Screenshots are kept below build/screenshots.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity import check
from qwen3_parity.folder.check import check_folder
from qwen3_parity.folder.diagnose import diagnose_folder
from qwen3_parity.report.page.contents import Report
from qwen3_parity.report.page.html import html
from qwen3_parity.report.page.mistakes import mistakes_of_folder
from qwen3_parity.report.page.plots import PLOTS, specification

playwright = pytest.importorskip("playwright.sync_api", reason="the extra [dev] is not installed: no playwright")

CASES = GOLDEN_ROOT / "cases"
SCREENSHOTS = GOLDEN_ROOT.parent / "build" / "screenshots"
SIZES = {"wide": (1280, 800), "phone": (390, 844)}
Q_ROPE = "decoder.layers.0.self_attn.q_rope"
Q_ROPE_LINK = f"#case=decoder%2Fplain&tap={Q_ROPE}&step=2"


@dataclass
class Opened:
    """A page in a window, with everything that it asked for and complained about."""

    page: Any
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def pages(seeded, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports: a clean run, equal bits that no op was judged on, a seeded bug, and a folder with it."""
    root = tmp_path_factory.mktemp("pages")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    golden = CASES / "decoder" / "plain.pb"
    clean = check(golden, golden, seeded.weights)
    folder = root / "recordings"
    (folder / "op").mkdir(parents=True)
    shutil.copy(seeded.path, folder / "plain.pb")
    shutil.copy(CASES / "op" / "rope.pb", folder / "op")
    shutil.copy(CASES / "tokenization" / "numbers.pb", folder)
    judged = diagnose_folder(check_folder(folder))
    reports = {
        "clean": Report([clean]),
        "equal": Report([check(golden, golden)]),
        "bug": seeded.report,
        "folder": Report(judged.folder.results, mistakes_of_folder(judged), missing=judged.folder.missing),
    }
    for name, report in reports.items():
        (root / f"{name}.html").write_text(html(report), encoding="utf-8")
    return {name: root / f"{name}.html" for name in reports}


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    contexts = []

    def to(name: str, size: str = "wide", link: str = "") -> Opened:
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light", offline=True)
        contexts.append(context)
        view = Opened(context.new_page())
        view.page.on("request", lambda request: view.asked.append(request.url))
        view.page.on("console", lambda message: view.complaints.append(message.text))
        view.page.on("pageerror", lambda error: view.complaints.append(str(error)))
        view.page.goto(pages[name].as_uri() + link)
        view.page.wait_for_selector("#map-body table")
        return view

    yield to
    for context in contexts:
        context.close()


def within(page: Any, text: str) -> bool:
    """Whether a text is wholly within the window, without scrolling."""
    box = page.get_by_text(text).first.bounding_box()
    size = page.viewport_size
    return (
        box is not None
        and box["y"] >= 0
        and box["y"] + box["height"] <= size["height"]
        and box["x"] >= 0
        and (box["x"] + box["width"] <= size["width"])
    )


def test_each_plot_is_what_vega_lite_understands(opened: Any) -> None:
    view = opened("clean")
    for name in PLOTS:
        spec = {**specification(name), "width": 300}
        assert view.page.evaluate("(spec) => vegaLite.compile(spec).spec.marks.length", spec)
    assert not view.complaints


RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("bug", "wide"),
        *(pytest.param("clean", size, marks=pytest.mark.slow) for size in ("wide", "phone")),
        *(
            pytest.param(*look, marks=pytest.mark.slow)
            for look in (("bug", "phone"), ("folder", "wide"), ("folder", "phone"))
        ),
    ],
)
def test_a_page_complains_of_nothing_asks_nobody_and_everybody_can_read_it(opened: Any, name: str, size: str) -> None:
    """In both themes."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    view = opened(name, size, link=Q_ROPE_LINK if name == "bug" else "")
    serious = []
    for theme in ("light", "dark"):
        view.page.emulate_media(color_scheme=theme)
        view.page.locator("#drift").scroll_into_view_if_needed()
        view.page.wait_for_selector("#drift canvas[role=img]")
        view.page.evaluate("scrollTo(0, 0)")
        view.page.screenshot(path=SCREENSHOTS / f"{name}-{size}-{theme}.png", full_page=True)
        violations = axe.run(view.page, options=RULES).response["violations"]
        rules = [rule for rule in violations if rule["impact"] in ("serious", "critical")]
        serious += [
            (theme, rule["id"], node["html"], node["failureSummary"]) for rule in rules for node in rule["nodes"]
        ]
    assert not serious
    assert not view.complaints
    assert [url.partition("#")[0].rpartition("/")[2] for url in view.asked] == [f"{name}.html"]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["bug", "folder"])
def test_the_blamed_op_and_the_fix_are_on_the_first_screen(opened: Any, name: str, size: str) -> None:
    page = opened(name, size).page
    page.screenshot(path=SCREENSHOTS / f"first-screen-{name}-{size}.png")  # docs/report.png is the bug's, wide
    assert page.evaluate("scrollY") == 0
    assert within(page, "x * cos + cat(-x[d/2:], x[:d/2]) * sin")
    assert within(page, "decoder.layers.*.self_attn.q_rope") and within(page, "rope.interleaved")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_map_shows_where_it_starts_and_what_only_suffers(opened: Any) -> None:
    page = opened("bug").page
    first = page.locator(".cell.first")
    assert first.count() == 1 and "attn.q_rope, layer 0" in first.get_attribute("aria-label").replace("merged_", "")
    assert within_window(first, page)
    suffers = page.locator('.cell[aria-label*="self_attn.scores, layer 1"] i')
    assert suffers.nth(0).get_attribute("class") in ("l1", "l2", "l3")
    assert suffers.nth(1).get_attribute("class") == "l6 pale"
    assert page.locator(".cell.first i").nth(1).get_attribute("class") == "l6"
    strong, pale = (loudness(page, selector) for selector in (".cell.first i.l6", ".cell i.l6.pale"))
    assert strong > 3 * pale


def loudness(page: Any, selector: str) -> float:
    """How far apart red and green are in an element's background, 0 to 255."""
    colour = page.locator(selector).first.evaluate("cell => getComputedStyle(cell).backgroundColor")
    red, green = re.findall(r"\d+", colour)[:2]
    return float(red) - float(green)


def test_the_row_of_the_culprit_looks_otherwise_than_those_behind_it(opened: Any) -> None:
    page = opened("bug").page
    culprits, victims = page.locator("#rows tr.culprit"), page.locator("#rows tr.victim")
    names = culprits.locator("a").all_inner_texts()
    assert names and all(name.endswith(("q_rope", "k_rope")) for name in names) and victims.count() > 10
    assert culprits.locator(".tag").count() == culprits.count() and not victims.locator(".tag").count()


def test_the_worst_elements_need_no_click(opened: Any) -> None:
    for name in ("bug", "folder"):
        page = opened(name).page
        assert page.locator("#tap h2").inner_text().startswith(f"Where it begins: {Q_ROPE} (step 0)")
        assert page.locator("#tap tbody tr").count() == 8 and "tap=" not in page.url
    assert opened("clean").page.locator("#tap").is_hidden()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", ["bug", "folder"])
def test_the_error_through_the_network_is_drawn_before_anybody_scrolls(opened: Any, name: str) -> None:
    page = opened(name).page
    page.wait_for_selector("#drift canvas[role=img]", state="attached")
    box = page.locator("#drift canvas").bounding_box()
    assert box["y"] > page.viewport_size["height"] and box["height"] > 150 and page.evaluate("scrollY") == 0


@pytest.mark.slow
def test_what_is_equal_bit_for_bit_says_so_where_its_errors_would_stand(opened: Any) -> None:
    page = opened("equal").page
    assert page.locator("#drift .plot").inner_text() == "No tap has an error."


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("section", ["map", "taps"])
def test_what_is_wider_than_the_screen_shows_that_there_is_more(opened: Any, section: str) -> None:
    edge = opened("bug", "phone").page.locator(f"#{section} .edge")
    playwright.expect(edge).to_have_class("edge more")
    edge.locator(".scroll").evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    playwright.expect(edge).to_have_class("edge")
    playwright.expect(opened("bug").page.locator(f"#{section} .edge")).to_have_class("edge")


def within_window(locator: Any, page: Any) -> bool:
    box = locator.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"]


@pytest.mark.slow
def test_a_right_network_has_no_cell_beyond_its_budget(opened: Any) -> None:
    page = opened("clean").page
    assert page.locator(".cell i").count() > 100 and page.locator(".cell :is(.l4, .l5, .l6), .cell.first").count() == 0


@pytest.mark.slow
def test_a_link_opens_what_it_points_to(opened: Any) -> None:
    page = opened("bug", link=Q_ROPE_LINK).page
    assert f"{Q_ROPE} (step 2)" in page.locator("#tap h2").inner_text()
    assert "Wrong on its own inputs" in page.locator("#tap").inner_text()
    page.wait_for_selector("#tap figure:nth-of-type(3) canvas")  # depth, steps, and the picture of the worst tap
    assert page.locator("#tap tbody tr").count() == 8


@pytest.mark.slow
def test_search_filter_and_sort_work_together_and_stay_in_the_address(opened: Any) -> None:
    page = opened("bug").page
    page.fill("#search", "layers.1 rope")
    assert page.locator("#count").inner_text() == "10 of 380"
    page.select_option("#show", "own")
    page.fill("#search", "")
    assert page.locator("#count").inner_text() == "30 of 380"
    page.select_option("#op", "linear")
    assert page.locator("#count").inner_text() == "0 of 380"
    page.select_option("#op", "")
    page.get_by_role("button", name="run, of budget").click()
    shares = page.locator("#rows tbody tr td:nth-child(4)").all_inner_texts()
    values = [float(share.split(" ")[0]) for share in shares]
    assert len(values) == 30 and values == sorted(values, reverse=True)
    page.reload()
    assert page.locator("#count").inner_text() == "30 of 380" and page.input_value("#show") == "own"
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("run, of budget")


@pytest.mark.slow
def test_the_keyboard_alone_leads_from_the_map_to_a_tap(opened: Any) -> None:
    page = opened("bug").page
    page.locator(".cell.first").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert "k_rope, layer 1" in page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#tap h2")).not_to_contain_text("Where it begins")
    assert "layers.1.self_attn.k_rope" in page.evaluate("document.activeElement.innerText")


@pytest.mark.slow
def test_every_stop_of_the_tab_key_is_a_few_presses_away(opened: Any) -> None:
    page = opened("bug").page
    stops = []
    for _ in range(24):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
            )
        )
    assert {"skip", "cell first", "search", "op", "show"} <= set(stops)


@pytest.mark.slow
def test_the_cases_of_a_folder_are_chosen_by_list_and_by_link(opened: Any) -> None:
    page = opened("folder").page
    assert page.input_value("#case") == "0" and page.locator("#map-body .cell.first").count() == 1
    page.select_option("#case", label="tokenization/numbers – parity")
    playwright.expect(page.locator("#map-body")).to_contain_text("A row a stage, a column a text")
    assert "numbers" in page.url
    page.get_by_role("link", name="op/rope").click()
    playwright.expect(page.locator("#coverage-body")).to_contain_text("op/rope: parity")


@pytest.mark.slow
def test_every_plot_is_drawn_again_when_the_theme_changes(opened: Any) -> None:
    page = opened("bug").page
    page.locator("#drift").scroll_into_view_if_needed()
    page.wait_for_selector("#drift canvas[role=img]")
    picture = "document.querySelector('#drift canvas').toDataURL()"
    before = page.evaluate(picture)
    page.emulate_media(color_scheme="dark")
    for _ in range(100):  # the page's policy lets nobody wait for an expression
        if page.evaluate(picture) != before:
            return
        page.wait_for_timeout(50)
    pytest.fail("the plot has the colours of the other theme")
