"""What makes one file of a page: packed scripts, data that no text can end, and a policy for the rest."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def script_data(value: Any) -> Markup:
    """JSON that can stand between script tags: no text in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(ESCAPES))  # every character with a meaning in HTML is escaped


@cache
def plotting_library() -> str:
    """The source of plotly.js, from the package that ships it."""
    return (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@cache
def packed(text: str) -> str:
    """gzip in base64, the same for equal texts."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def content_policy(scripts: Iterable[str]) -> str:
    """A Content-Security-Policy: these scripts run, pictures are data, and nothing is loaded or sent.

    Scripts are allowed by their SHA-256, so a script that came in with a caption would not run even if it
    were not escaped. Styles are inline, because the plotting library sets its own.
    """
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
