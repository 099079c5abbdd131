"""The `Encoder` protocol, its registry, and one adapter per model family."""
