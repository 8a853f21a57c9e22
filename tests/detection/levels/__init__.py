"""Seeded bugs, recorded as people record: how much is caught, blamed and named at each level of taps, and how fast."""
