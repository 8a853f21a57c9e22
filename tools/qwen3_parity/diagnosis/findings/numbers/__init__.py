"""Patterns in the wrong numbers of a tap, or of several: factors, offsets, bounds, grids, sums of rows, places."""
