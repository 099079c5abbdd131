"""What a caller can get wrong in a search."""

from __future__ import annotations


class SearchInputError(ValueError):
    """Queries, rows or parameters that cannot be searched; the message names the row and what is wrong."""
