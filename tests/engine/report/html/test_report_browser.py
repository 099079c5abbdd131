"""The report in a real browser, from disk: no error, no request, filters, sorting, themes, a phone, paper.

Chromium is Debian's (``apt-get install chromium``) or the one that ``ITRSTRESS_CHROMIUM`` names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.report_page import DRAWN, find_browser, open_once
from engine.cli.main import run

pytestmark = pytest.mark.browser

LARGEST = 10_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; skips where there is none."""
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium; install it or set ITRSTRESS_CHROMIUM")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[test]'")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(study: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report.html"
    bench = next(Path(__file__).parents[4].glob("bench/results/*-peers.json"))
    assert run(["report", str(study.results), "--out", str(out), "--bench", str(bench)]) == 0
    return out


@contextmanager
def opened(browser: Any, file: Path, **options: Any) -> Iterator[Any]:
    """A page in which an error, a message of the console or a request fails the test at the end."""
    heard: list[str] = []
    context = browser.new_context(**options)
    page = context.new_page()
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector(DRAWN, state="attached")
    yield page
    context.close()
    assert [one for one in heard if not one.startswith(("data:", "blob:")) and one != file.as_uri()] == []


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.locator(selector).all_text_contents()
    return found


def test_it_opens_from_disk_and_draws_everything(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        figures = page.locator("[data-figure]").count()
        assert figures == 4  # nothing to draw of replaced words and distractors
        assert page.locator(".js-plotly-plot").count() == 2 * figures - 1 + 2  # mix alone; two of the bench
        assert page.locator(".js-plotly-plot .point").count() > 20
        assert page.title() != "owned"
        assert all(page.locator("[role=img]").nth(n).get_attribute("aria-label") for n in range(figures))


def test_captions_that_are_html_are_shown_as_text(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        shown = " ".join(texts(page, "#failure-cards"))
        assert "<script>document.title = 'owned'</script>" in shown
        assert "<i>kettle</i>" in shown
        assert page.locator("#failure-cards script, #failure-cards i, #failure-cards b b").count() == 0
        assert page.title().startswith("Stress test")


def test_names_that_are_html_are_shown_as_text(
    browser: Any, make_study: Callable[..., Any], tmp_path: Path
) -> None:
    name = "<b>a</b> <i onclick=\"document.title='owned'\">b</i> %{x} '&lt;"
    study = make_study(checkpoints=(name, "step-2"))
    out = tmp_path / "report.html"
    assert run(["report", str(study.results), "--out", str(out)]) == 0
    with opened(browser, out) as page:
        for selector in (
            ".headline h3",
            ".chip",
            "#table tbody th",
            ".card header",
            ".xtick text",
            "#origin td",
        ):
            shown = " ".join(texts(page, selector))
            assert "<b>a</b>" in shown, selector
        assert page.locator("[onclick]").count() == 0
        page.locator(".chip").first.click()
        assert page.locator("#table tbody tr:visible").count() == page.locator("#table tbody tr").count() / 2


def test_failures_are_filtered_by_variant_checkpoint_and_word(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        total = page.locator("#failure-count").text_content()
        page.select_option("select[name=variant]", label="same_concept")
        assert set(texts(page, ".card header b")) == {"same_concept:seed=0"}
        page.select_option("select[name=checkpoint]", label="step-10")
        assert all("step-10" in one for one in texts(page, ".card header"))
        page.select_option("select[name=variant]", "")
        page.select_option("select[name=checkpoint]", "")
        page.fill("input[name=word]", "horse")
        cards = texts(page, ".card")
        assert cards
        assert all("horse" in one for one in cards)
        assert page.locator("#failure-count").text_content() != total
        page.fill("input[name=word]", "orse")  # not the beginning of a word
        assert page.locator(".card").count() == 0
        page.fill("input[name=word]", "")
        assert page.locator("#failure-count").text_content() == total


def test_pictures_are_there(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        picture = page.locator(".card img").first
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 224


def column(page: Any, number: int) -> list[float]:
    values = page.locator(f"#table tbody tr:visible > :nth-child({number})")
    return [float(one.get_attribute("data-value") or "nan") for one in values.all()]


def test_the_table_is_sorted_by_its_headings_with_the_keyboard(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        headings = texts(page, "#table thead th")
        number = next(place for place, one in enumerate(headings, 1) if one.startswith("drop rate"))
        heading = page.locator(f"#table thead th:nth-child({number})")
        heading.locator("button").focus()
        for order, sign in (("descending", -1), ("ascending", 1)):
            page.keyboard.press("Enter")
            assert heading.get_attribute("aria-sort") == order
            values = column(page, number)
            known = [one for one in values if one == one]
            assert known == sorted(known, key=lambda one: sign * one)
            assert values[: len(known)] == known  # undefined are last either way
            assert len(known) < len(values)
        assert page.locator("#table th[aria-sort]").count() == 1


def test_rows_are_filtered_and_checkpoints_switched(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        rows = page.locator("#table tbody tr:visible")
        total = rows.count()
        page.fill("#table-filter", "mix t2i")
        assert 0 < rows.count() < total
        assert all("mix" in one and "t2i" in one for one in texts(page, "#table tbody tr:visible"))
        page.fill("#table-filter", "")
        points = page.locator("[data-figure=changes] .point")
        before = points.count()
        chip = page.get_by_role("button", name="step-9")
        chip.click()
        assert chip.get_attribute("aria-pressed") == "false"
        assert rows.count() == total / 2
        assert points.count() == before / 2
        page.get_by_role("button", name="all", exact=True).click()
        assert rows.count() == total


def test_another_metric_is_drawn(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        figure = page.locator("#figure-training")
        before = figure.locator("[role=img]").first.get_attribute("aria-label")
        button = figure.get_by_role("button", name="drop rate")
        button.click()
        after = figure.locator("[role=img]").first.get_attribute("aria-label")
        assert "R@1, % over checkpoint" in before
        assert "drop rate, % over checkpoint" in after
        figure.locator("summary").first.click()
        assert figure.locator("table").first.is_visible()


def brightness(page: Any, selector: str, what: str) -> float:
    script = "([s, w]) => getComputedStyle(document.querySelector(s))[w].match(/[0-9.]+/g).slice(0, 3)"
    return sum(map(float, page.evaluate(script, [selector, what]))) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes(browser: Any, report: Path, scheme: str) -> None:
    with opened(browser, report, color_scheme=scheme) as page:
        dark = scheme == "dark"
        for _ in range(2):
            assert (brightness(page, "body", "backgroundColor") < 128) == dark
            assert (brightness(page, ".js-plotly-plot .xtick text", "fill") > 128) == dark
            page.locator("#theme").click()  # auto -> light
            if not dark:
                page.locator("#theme").click()  # -> dark
            dark = not dark


@pytest.mark.parametrize("width", [320, 390, 820])
def test_nothing_sticks_out_on_small_screens(browser: Any, report: Path, width: int) -> None:
    with opened(browser, report, viewport={"width": width, "height": 800}, is_mobile=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints(browser: Any, report: Path) -> None:
    with opened(browser, report, color_scheme="dark") as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert not page.locator(".top").is_visible()
        assert brightness(page, ".js-plotly-plot .xtick text", "fill") < 128
        assert page.pdf().startswith(b"%PDF")


def test_everything_is_reached_with_names(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        nameless = """() => [
            ...document.querySelectorAll('button, select, input, a, img, [role=region], [role=img]')
        ].filter(e => !(
            e.textContent.trim() || e.ariaLabel || e.alt || e.labels?.length
            || e.getAttribute('aria-labelledby')
        )).map(e => e.outerHTML.slice(0, 80))"""
        assert page.evaluate(nameless) == []
        levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(h => +h.tagName[1])")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


def test_three_hundred_runs_stay_small_and_open(
    browser: Any, make_study: Callable[..., Any], tmp_path: Path
) -> None:
    """How fast is measured by `bench.report_page`."""
    study = make_study(
        checkpoints=tuple(f"step-{number}00" for number in range(1, 25)),
        images=80,
        captions=5,
        levels=(0.95, 0.9, 0.85, 0.8),
        families=tuple(f"policy{number}:seed=0" for number in range(5)),
        resamples=20,
    )
    out = tmp_path / "report.html"
    assert run(["report", str(study.results), "--out", str(out)]) == 0
    assert out.stat().st_size <= LARGEST
    with opened(browser, out) as page:
        assert page.locator("#table tbody tr").count() == 24 * 12
    ready, drawn = open_once(browser, out)
    assert 0 < ready <= drawn
