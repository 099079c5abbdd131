"""Ranks to metrics, tie policies, results.

Called, the package is `engine.api.evaluate`; `engine` itself sees to that.
"""
