"""One file a family of variants; what lies here registers itself (`engine.variants.registry.family`)."""
