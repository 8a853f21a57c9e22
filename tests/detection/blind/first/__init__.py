"""The first draw: read since, and what names bugs improved on it."""

FILES = (
    *("norms", "positions", "masks", "softmaxes", "parallel", "paged", "caches", "quantised", "linears", "sampling"),
    *("training",),
)
"""The draw's modules, each with its `ROWS`."""
