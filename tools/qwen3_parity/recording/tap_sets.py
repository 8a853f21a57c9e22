"""How much of a run people record: from every op to what a model returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qwen3_golden import pb
from qwen3_parity.judge.spoken import as_filed
from qwen3_reference.graph.words import RESULTS

_CHOICES = ("next_token_probs", "generated_ids")
_TRAINED = ("loss", "gradient.logits", "gradient.*.weight", "gradient.*.bias")
_RETURNED = ("logits", "encoder.norm", "*.last_hidden_state", *_CHOICES, *_TRAINED)
_LAYERS = ("*position_ids", "*.inv_freq", "*cos", "*sin", "*.embed_*", "*.mask", "*.layers.*.output", "*.norm")
_HALVES = ("*.cache_*", "*.o_proj", "*.out_proj", "*.attn_residual", "*.down_proj", "*.linear2")
_MODULES = (
    *("*position_ids", "*cos", "*sin", "*.embed_*", "*.layers.*.input", "*.layers.*.output", "*.norm", "*.norm[12]"),
    *("*_layernorm", "*.[qkv]_proj", "*.encoder_[kv]_proj", "*.[qk]_norm", "*.encoder_k_norm", "*.context", "*.o_proj"),
    *("*.attn_residual", "*.gate_proj", "*.up_proj", "*.act", "*.down_proj", "*.linear[12]"),
)

TAP_SETS: Mapping[str, tuple[str, ...]] = {
    "all": (),
    "fused": ("!*.mask", "!*_rope", "!*.scores", "!*.probs", "!*.cache_*"),
    "modules": (*_MODULES, *_RETURNED),
    "sub-layer": (*_LAYERS, *_HALVES, *_RETURNED),
    "layer": (*_LAYERS, *_RETURNED),
    "logits": _RETURNED,
}
"""As globs over taps: every op; all but the inside of attention; what goes into modules and comes out; what enters and
leaves attention and MLP; layer outputs; what the model returns. `!` in front of a glob leaves out what it matches."""

_NUMBERED = ("*.[0-9]", "*.[0-9][0-9]", "*.[0-9][0-9][0-9]")
_PARTS = (
    *("*_attn", "*.attn", "*attention", "*Attention", "*.mixer", "*.mlp", "*.feed_forward", "*.ffn", "*.fc2"),
    *(
        "*norm",
        "*LayerNorm",
        "*.ln_[0-9f]",
        "!*.[qk]_norm",
        "!*.[qk]_layernorm",
        "!*.query_norm",
        "!*.key_norm",
        "!*#*",
    ),
)
_WITHIN = ("!*.query", "!*.key", "!*.value", "!*.probs", "!*.context", "!cache.*")

OF_GRAPHS: Mapping[str, tuple[str, ...]] = {
    "all": (),
    "fused": _WITHIN,
    "modules": _WITHIN,
    "sub-layer": (*_NUMBERED, *_PARTS, *RESULTS),
    "layer": (*_NUMBERED, *RESULTS),
    "logits": RESULTS,
}
"""The same of a golden with a graph, whose taps are modules' paths: what modules give, whatever is within attention."""


def globs_of(words: Iterable[str], case: pb.Case) -> tuple[str, ...]:
    """The globs that sets of taps and globs stand for in a case."""
    sets = OF_GRAPHS if case.mode == pb.GRAPH else TAP_SETS
    return as_filed(glob for word in words for glob in sets.get(word, (word,)))
