"""itrstress: stress tests for image-text retrieval."""

import indexes as indexes  # first: it sets the BLAS kernel before numpy is loaded
from engine.version import VERSION as __version__

__all__ = ["__version__"]
