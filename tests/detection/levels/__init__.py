"""Seeded bugs, recorded as people record: how much is caught, blamed and named with each set of taps, and how fast."""
