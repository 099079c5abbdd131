"""Digests of what decides an embedding."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def json_digest(value: Any) -> str:
    """SHA-256 (hex) of a value as JSON, keys sorted; what JSON has no form for counts as its text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
