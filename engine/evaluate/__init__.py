"""Ranks to metrics, tie policies, results.

Called, the package is `engine.api.evaluate`: ``engine.evaluate("store.h5")`` in a notebook reads as the
command does.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """This package; a call evaluates a store."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """See `engine.api.evaluate`."""
        from importlib import import_module  # by name: the layers above are no business of this package

        return import_module("engine.api").evaluate(*arguments, **options)


sys.modules[__name__].__class__ = CallablePackage
