"""The command line, a file a verb; `cli` finds them here."""
