"""Words in the names of taps: what a whole model gives, and what tells the calls of one module apart.

Some of transformers' models call one rotary embedding for each kind of layer, in the order of a set, which is another
one in the next process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

RESULTS = ("score", "embedding", "logits", "last_hidden_state", "pooler_output", "answers", "pooled")
"""What a whole model gives, as transformers calls it, and what a module around one gives; the first is what counts."""


def named_call(path: str, args: Iterable[object], named: Mapping[str, object] | None) -> str:
    """A module's path, with "#" and the first argument that is a word behind it: "model.rotary_emb#full_attention"."""
    words = (value for value in (*args, *(named or {}).values()) if isinstance(value, str) and value.isidentifier())
    word = next(words, "")
    return f"{path}#{word}" if word else path
