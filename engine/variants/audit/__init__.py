"""How good a set of fakes is: what it changes, what it repeats, and what gives it away."""
