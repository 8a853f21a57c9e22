"""Dumps that people have already, as recordings: a file a format, and what their names mean."""
