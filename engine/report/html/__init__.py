"""The HTML report: one file that opens from disk, reads nothing and sends nothing."""
