"""The stages of a tokenizer, in order, under the names by which recordings declare them and reports name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qwen3_golden import golden_pb2 as pb

ENCODING = ("segments", "normalized", "pre_tokens", "symbols", "merges", "ids", "offsets")
DECODING = ("pieces", "decoded", "chunks")
BATCH = ("batch",)
CONVERSATION = ("rendered", "rendered_ids")

STAGES = (*ENCODING, *DECODING, *BATCH, *CONVERSATION)
"""What `Run.materialised` of a tokenization names; golden.proto says which fields belong to which."""
STAGES_OF: Mapping[str, Sequence[str]] = {
    "encoding": ENCODING,
    "decoding": DECODING,
    "batch": BATCH,
    "conversation": CONVERSATION,
}
"""The lists of a tokenization, and the stages of what stands in each."""


def stages_in(tokenization: pb.Tokenization) -> list[str]:
    """The stages of those of its lists that are not empty."""
    return [stage for kind, stages in STAGES_OF.items() if getattr(tokenization, kind) for stage in stages]
