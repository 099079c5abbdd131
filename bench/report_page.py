"""How long a browser takes to open a report from disk.

    python -m bench.report_page REPORT.html [--repeat 5] [--json FILE]

Opens the page in headless Chromium (on the path, or named by ITRSTRESS_CHROMIUM) in a fresh context each
time, and says how long it takes until it can be used (its tables are there and sort) and until its charts are
drawn, in seconds; the page's own marks `data-ready` and `data-drawn` say when. Needs playwright
(pip install "itrstress[bench]").
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import describe_machine
from bench.report import add_output, output_of

CANDIDATES = ("chromium", "chromium-browser", "google-chrome")
READY, DRAWN = "html[data-ready=true]", "html[data-drawn=true]"


def find_browser() -> str | None:
    """Where a Chromium is."""
    return os.environ.get("ITRSTRESS_CHROMIUM") or next(filter(None, map(shutil.which, CANDIDATES)), None)


def open_once(browser: Any, file: Path) -> tuple[float, float]:
    """Seconds until the page can be used, and until its charts are drawn."""
    context = browser.new_context()
    page = context.new_page()
    start = time.perf_counter()
    page.goto(file.resolve().as_uri())
    page.wait_for_selector(READY, state="attached")
    ready = time.perf_counter() - start
    page.wait_for_selector(DRAWN, state="attached")
    drawn = time.perf_counter() - start
    context.close()
    return ready, drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, metavar="REPORT.html")
    parser.add_argument("--repeat", type=int, default=5, help="openings (default %(default)s)")
    add_output(parser)
    options = parser.parse_args(arguments)
    output = output_of(parser, options)
    found = find_browser()
    if found is None or not options.page.is_file():
        parser.error("no Chromium here" if found is None else f"{options.page}: no such report")
    from playwright.sync_api import sync_playwright

    machine = describe_machine()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        open_once(browser, options.page)
        times = [open_once(browser, options.page) for _ in range(options.repeat)]
        browser.close()
    ready, drawn = ([one[place] for one in times] for place in (0, 1))
    result = {
        "bytes": options.page.stat().st_size,
        "ready_seconds": {"median": statistics.median(ready), "spread": [min(ready), max(ready)]},
        "drawn_seconds": {"median": statistics.median(drawn), "spread": [min(drawn), max(drawn)]},
        "machine": machine,
    }
    print(
        f"{result['bytes'] / 1e6:.1f} MB: usable after {statistics.median(ready):.2f} s, "
        f"drawn after {statistics.median(drawn):.2f} s"
    )
    if output is not None:
        output.write(f"{json.dumps(result, indent=1)}\n".encode())


if __name__ == "__main__":
    main()
