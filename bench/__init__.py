"""Measurements: latency, throughput and scaling of the engine and of its peers."""
