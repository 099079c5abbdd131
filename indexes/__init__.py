"""Exact inner-product search over swappable shards; knows nothing of images, models or metrics."""

from indexes.blas_kernel import choose_kernel

choose_kernel()  # before anything below imports numpy or FAISS
