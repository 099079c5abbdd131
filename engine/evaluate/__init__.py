"""Ranks to metrics, tie policies, results.

Called, the package is `engine.api.evaluate`: ``engine.evaluate("store.h5")`` in a notebook reads as the
command does. ``help(engine.api.evaluate)``, after ``import engine.api``, says what it takes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """This package; a call evaluates a store."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """See `engine.api.evaluate`."""
        return _called()(*arguments, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """That of `engine.api.evaluate`, for the help of notebooks."""
        return inspect.signature(_called())


def _called() -> Callable[..., Any]:
    """`engine.api.evaluate`, by name: the layers above are no business of this package."""
    found: Callable[..., Any] = import_module("engine.api").evaluate
    return found


sys.modules[__name__].__class__ = CallablePackage
