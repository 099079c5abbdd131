"""A page as a file of HTML, with everything in it."""

from __future__ import annotations

import re
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from engine.evaluate.collection import corpus_label
from engine.report.html.data import data_of
from engine.report.html.figures import Value
from engine.report.html.inline import content_policy, packed, plotting_library, script_data
from engine.report.html.page import Page, short_spec
from engine.report.table import NO_VARIANT
from engine.version import VERSION

TEMPLATES = "engine.report.html"
CARDS = 12  # headlines shown at once
NOTHING = "\u2013"  # a dash stands for no value


def render(page: Page) -> bytes:
    """The file: UTF-8, the same bytes for the same page."""
    script = template_text("report.js")
    environment = Environment(
        loader=PackageLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "short": short_spec,
        "interval": interval,
        "mib": mib,
        "milliseconds": milliseconds,
        "breakable": breakable,
    }
    text = environment.get_template("report.html").render(
        page=page,
        controls=page.controls,
        policy=content_policy((script, plotting_library())),
        style=environment.get_template("report.css").render(),
        script=script,
        plotting_library=packed(plotting_library()),
        data=script_data(data_of(page)),
        columns=page.columns,
        no_variant=NO_VARIANT,
        cards=CARDS,
        version=VERSION,
        corpus=corpus_label(page.found[0].provenance),
    )
    return f"{text}\n".encode()


def template_text(name: str) -> str:
    """A template as it is."""
    return (resources.files(TEMPLATES) / "templates" / name).read_text(encoding="utf-8")


def number(value: float | None, digits: int = 1) -> str:
    """The number with so many digits after its point, a dash for none."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def breakable(name: str) -> Markup:
    """A name that a narrow place breaks after its underscores and colons first."""
    return Markup(re.sub("([_:])", r"\1<wbr>", str(escape(name))))


def interval(value: Value | None) -> str:
    """``[59.2, 62.7]``; nothing where there is none."""
    return "" if value is None or value[1] is None else f"[{value[1]:.1f}, {value[2]:.1f}]"


def mib(value: int | None) -> str:
    """Bytes as MiB."""
    return NOTHING if value is None else f"{value / 2**20:,.0f}"


def milliseconds(value: float | None) -> str:
    """Seconds as milliseconds."""
    return NOTHING if value is None else f"{1e3 * value:,.2f}"
