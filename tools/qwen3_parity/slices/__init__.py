"""Judging by the reference's own graph: each recorded value from the nearest recorded ones before it."""
