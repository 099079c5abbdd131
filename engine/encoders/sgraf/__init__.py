"""SGRAF (Diao et al., 2021): SAF and SGR score pairs of regions and words. spec/models.md, section 2."""
