"""Sweeps: checkpoints x variants x directions, from a run file; one evaluation is `engine.evaluate`'s."""
