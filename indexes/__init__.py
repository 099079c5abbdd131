"""Exact inner-product search over swappable shards; knows arrays and shard readers, nothing of images, models or metrics."""
