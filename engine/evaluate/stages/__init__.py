"""How a query and a gallery item get their score: by embeddings, or by a matching head on a shortlist."""
