"""The stages of a tokenizer, in order, under the names by which recordings declare them and reports name them."""

from __future__ import annotations

ENCODING = ("segments", "normalized", "pre_tokens", "symbols", "merges", "ids", "offsets")
DECODING = ("pieces", "decoded", "chunks")
BATCH = ("batch",)
CONVERSATION = ("rendered", "rendered_ids")

STAGES = (*ENCODING, *DECODING, *BATCH, *CONVERSATION)
"""What `Run.materialised` of a tokenization names; golden.proto says which fields belong to which."""
