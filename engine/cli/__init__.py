"""The `itrstress` command, one file per command."""
