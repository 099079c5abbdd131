"""What the families of models are, for people who choose one."""

from __future__ import annotations

from dataclasses import replace

from engine.encoders.family import IMAGES, FamilyFacts
from engine.encoders.options import describe_options
from engine.encoders.registry import find_plugins, model_families


def catalogue() -> dict[str, FamilyFacts]:
    """Our own families by name, then those of installed plug-ins, none of which is imported."""
    plugins = {
        name: FamilyFacts((f"{name}:NAME[:WEIGHTS]",), IMAGES, "cosine", f"the plug-in {point.value}")
        for name, point in sorted(find_plugins().items())
    }
    own = {
        name: replace(family.facts, options=describe_options(family.options))
        for name, family in model_families().items()
    }
    return own | plugins
