"""Tables and reports made from results."""
