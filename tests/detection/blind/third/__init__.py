"""The third draw: two writers, from threads that neither of the earlier draws has."""

FILES = (
    *("norm_formulas", "rotary_tables", "hidden_cells", "attention_scores", "mlp_gates", "residual_sums"),
    *("embeddings_and_heads", "packed_weights"),
    *("stored", "stepping", "batching", "choosing", "encoding", "learning", "ways_back", "spread", "halved"),
    *("memory",),
)
"""The draw's modules, each with its `ROWS`."""
