"""An entry of the catalogue of loaders' bugs, written shortly, and the words that several of them share."""

from __future__ import annotations

from collections.abc import Iterable

from detection.mutants.mutant import Mutant, Seed, words

TIED, UNTIED, QWEN2 = "checkpoints/tied-decoder", "checkpoints/window-decoder", "checkpoints/qwen2-decoder"
BIASED, SHARDED, BFLOAT16, DEEP = (f"checkpoints/{n}" for n in ("biased", "window-encoder", "bfloat16", "deep"))
BOTH = (TIED, UNTIED)
ATTENTION = "encoder_attention_match decoder_attention_match"
SENTINEL_ROWS = "sentinel_rows_seeded sentinel_rows_match_statistics"
PADDING = 3
NO_TENSOR = "holds values of no tensor of the checkpoint"
STATISTICS = ("the mean is", "the standard deviation is")
OWN_TABLE = ("is not tied to shared.weight: a copy with other values", NO_TENSOR, *STATISTICS)
TAKEN_TABLE = ("holds the values of model.embed_tokens.weight", "rows drawn for model.embed_tokens", *STATISTICS)


def loader(name: str, says: str, seed: Seed, wrong: str, named: Iterable[str], cases: Iterable[str]) -> Mutant:
    """A bug of a loader: the checks that must fail, as words, and the parts of what they say."""
    return Mutant(name, says, seed, words(wrong), frozenset(named), tuple(cases))
