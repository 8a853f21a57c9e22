"""The second draw: two writers, from other threads than the first draw's."""

FILES = (
    *("norms", "rotations", "visibility", "kernels", "blocks", "backward", "caches", "chunks", "cached_bits", "shards"),
    *("attending", "converters", "few_bits", "activations", "generating", "losses", "gradients", "weight_gradients"),
)
"""The draw's modules, each with its `ROWS`."""
