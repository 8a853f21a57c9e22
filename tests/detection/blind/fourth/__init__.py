"""The fourth draw: two writers, from threads that none of the earlier draws has."""

FILES = (
    *("norms", "rotary_positions", "visibility", "attention_kernels", "mlps", "residual_wiring"),
    *("embeddings_and_heads", "loaded_weights"),
    *("stored_tokens", "later_calls", "rows_of_batches", "sampling", "encoders", "training", "ranks"),
    *("half_precision", "memory"),
)
"""The draw's modules, each with its `ROWS`."""
