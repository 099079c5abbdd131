"""VSE-infinity (Chen et al., 2021): regions or a grid, BERT or a GRU, learned pooling. spec/models.md,
section 1."""
