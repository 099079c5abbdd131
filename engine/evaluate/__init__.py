"""Ranks to metrics, tie policies, results."""
