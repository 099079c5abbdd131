"""The errors a user meets: one line that names the thing, what was found, what was expected, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class ItrstressError(Exception):
    """A failure that is not the user's input; exit code 1."""

    exit_code = 1


class InputError(ItrstressError):
    """Something the user gave (a file, an option, a name) cannot be used; exit code 2."""

    exit_code = 2


@contextmanager
def naming(thing: object) -> Iterator[None]:
    """Put what an error of input is about before it: ``thing: ...``."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{thing}: {error}") from error


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that no registry holds, with the nearest one that it does.

    Example: ``unknown variant 'mixx'; did you mean 'mix'? known: mix, patch, rococo``.
    """
    names = sorted(known)
    begun = [one for one in names if name and one.startswith(name)]
    nearest = begun[:1] or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ";"
    return InputError(f"unknown {kind} {name!r}{hint} known: {', '.join(names)}")
