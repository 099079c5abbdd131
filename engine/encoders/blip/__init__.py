"""BLIP (Li et al., 2022) on the library's model: two towers, and a matching head. spec/models.md, section
5."""
