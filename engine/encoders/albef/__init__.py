"""ALBEF (Li et al., 2021): two towers, and fusion layers for a shortlist. spec/models.md, section 4."""
