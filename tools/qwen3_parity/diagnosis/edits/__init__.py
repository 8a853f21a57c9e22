"""Mistakes that no list has: edits of the reference's own graph, each at a line of its source."""
