"""The `perdure` command: one file a command."""
