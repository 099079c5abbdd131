"""Text and image transformations, their registry, and concept groups."""
