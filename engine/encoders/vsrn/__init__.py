"""VSRN (Li et al., 2019): region features through a graph and a GRU. spec/models.md, section 3."""
