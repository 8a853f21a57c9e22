"""Batches and conversations by Hugging Face: texts to a rectangle of ids, messages to text to ids."""

from __future__ import annotations

import json
from typing import Any

from qwen3_golden import pb
from qwen3_reference.tokenization.loading import ReferenceTokenizer

_THINKING = {pb.THINKING_ON: True, pb.THINKING_OFF: False}


def batch(reference: ReferenceTokenizer, request: pb.Batch) -> pb.Batch:
    """`request` with its rows filled in, padded to the longest after truncation.

    Hugging Face does the two by two calls here: in one it refuses a length that is no multiple.
    """
    result = pb.Batch()
    result.CopyFrom(request)
    result.ClearField("row")
    tokenizer = reference.tokenizer
    before = tokenizer.truncation_side
    tokenizer.truncation_side = request.truncation_side
    encoded = tokenizer(
        list(request.text),
        add_special_tokens=False,
        truncation=request.max_length > 0,
        max_length=request.max_length or None,
    )
    tokenizer.truncation_side = before
    encoded = tokenizer.pad(
        encoded,
        padding="longest",
        padding_side=request.padding_side,
        pad_to_multiple_of=request.pad_to_multiple_of or None,
    )
    for ids, mask in zip(encoded["input_ids"], encoded["attention_mask"], strict=True):
        result.row.append(pb.BatchRow(input_id=ids, attention_mask=mask))
    return result


def conversation(reference: ReferenceTokenizer, request: pb.Conversation) -> pb.Conversation:
    """`request` with the rendered text and its ids; `enable_thinking` reaches the template only when it is given."""
    result = pb.Conversation()
    result.CopyFrom(request)
    thinking: dict[str, Any] = {"enable_thinking": _THINKING[request.thinking]} if request.thinking in _THINKING else {}
    rendered = reference.tokenizer.apply_chat_template(
        json.loads(request.messages),
        tools=json.loads(request.tools) if request.tools else None,
        add_generation_prompt=request.add_generation_prompt,
        tokenize=False,
        **thinking,
    )
    assert isinstance(rendered, str)
    result.rendered = rendered
    ids = reference.tokenizer(rendered, add_special_tokens=False, split_special_tokens=False)["input_ids"]
    del result.id[:]
    result.id.extend(ids)
    return result
