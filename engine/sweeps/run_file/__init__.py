"""The run file of a sweep: read, checked and laid out as a sweep takes it."""
