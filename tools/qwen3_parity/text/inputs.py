"""What a tokenization's messages ask for and what is made of it: its four lists, their stages, their input fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qwen3_golden import pb

Message = pb.Encoding | pb.Decoding | pb.Batch | pb.Conversation

RESULT: Mapping[str, str] = {
    "encoding": "ids",
    "decoding": "decoded",
    "batch": "batch",
    "conversation": "rendered_ids",
}
"""What a tokenizer must always deliver: parity of everything but the result is none."""

_OUTPUTS = {
    "encoding": ("segment", "id", "offset"),
    "decoding": ("piece", "text", "chunk"),
    "batch": ("row",),
    "conversation": ("rendered", "id"),
}


def messages_of(tokenization: pb.Tokenization, kind: str) -> Sequence[Message]:
    """One of the four lists, by its field's name."""
    messages: Sequence[Message] = getattr(tokenization, kind)
    return messages


def inputs_of(tokenization: pb.Tokenization) -> pb.Tokenization:
    """A copy that has the fields marked "Given" in the schema, and no others."""
    bare = pb.Tokenization()
    bare.CopyFrom(tokenization)
    for kind, fields in _OUTPUTS.items():
        for message in messages_of(bare, kind):
            for field in fields:
                message.ClearField(field)
    return bare
