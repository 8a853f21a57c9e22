"""Embeddings and heads of others: scales, tables in few bits or with an adapter, and tables in each other's place."""

from __future__ import annotations

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import noise

_BITS, _GROUP, _WORD = 6, 16, 32
"""Of a code; codes that share a scale; bits of a word."""
_RANK = 2


def scale_in_bfloat16(patch: Patch) -> None:
    patch.setattr(patch.model, "scale", float(torch.tensor(patch.model.scale).bfloat16()))


def table_of(patch: Patch, stack: str, table: torch.Tensor) -> None:
    """The stack looks its ids up in `table`."""
    embedding = getattr(patch.model, stack).embed_tokens
    patch.setattr(embedding, "forward", lambda ids: torch.nn.functional.embedding(ids, table))


def encoder_of_head(patch: Patch) -> None:
    table_of(patch, "encoder", patch.model.lm_head.weight)


def whole_codes_in_words(table: torch.Tensor) -> torch.Tensor:
    """Codes of 6 bits lie bit by bit, across words; they are read as if each word held 5 of them and 2 idle bits."""
    rows, size = table.shape
    groups = torch.unflatten(table.float(), 1, (-1, _GROUP))
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (high - low) / (2**_BITS - 1)
    codes = ((groups - low) / scale).round().long().flatten(1)
    places = torch.arange(_BITS)
    bits = (codes[..., None] >> places & 1).flatten()
    bits = torch.nn.functional.pad(bits, (0, 2 * _WORD))
    index = torch.arange(size)
    begin = index // (_WORD // _BITS) * _WORD + index % (_WORD // _BITS) * _BITS
    first = torch.arange(rows)[:, None] * size * _BITS + begin
    read = (bits[first[..., None] + places] << places).sum(-1)
    values: torch.Tensor = torch.unflatten(read, 1, (-1, _GROUP)) * scale + low
    return values.flatten(1).to(table.dtype)


def bits_across_words(patch: Patch) -> None:
    for stack in ("encoder", "decoder"):
        weight = getattr(patch.model, stack).embed_tokens.weight.detach()
        table_of(patch, stack, whole_codes_in_words(weight))


def adapter_again(patch: Patch) -> None:
    """The adapter is in the table already, and the forward adds it once more."""
    weight = patch.model.decoder.embed_tokens.weight.detach()
    adapter = noise(weight[:, :_RANK], 1) @ noise(weight[:_RANK], 2)
    for stack in ("encoder", "decoder"):
        table_of(patch, stack, weight + 4 * adapter)


def scaled_untied(patch: Patch) -> None:
    """What the head reads is divided by the root of its width where the head is not the embedding."""
    assert not patch.model.config.tie_word_embeddings
    patch.wrap(patch.model.lm_head, "forward", lambda plain, x: plain(x * x.shape[-1] ** -0.5))


_TABLES = "decoder.embed_tokens encoder.embed_tokens"

ROWS = (
    row("E036", "the embeddings' scale, the root of their width, is rounded to bfloat16",
        "huggingface/transformers#38702", "embedding", "classic/post_norm classic/pre_norm", scale_in_bfloat16,
        "post_norm.embeddings pre_norm.embeddings"),
    row("E037", "the encoder's embedding is loaded from the head's weights", "huggingface/transformers#48154",
        "embedding", "encdec/window encdec/qwen2", encoder_of_head, "encoder.embed_tokens"),
    row("E038", "an embedding of 6-bit codes that cross words is read as 5 codes a word", "ddalcu/mlx-serve#305",
        "quantised embedding", "decoder/head_dim_64 encdec/qwen2", bits_across_words, _TABLES),
    row("E039", "an embedding with a merged adapter adds the adapter again", "EricLBuehler/candle-lora#26",
        "adapter", "decoder/plain encdec/ragged", adapter_again, _TABLES),
    row("E040", "logits are rounded to bfloat16", "sgl-project/sglang#33627", "head",
        "decoder/window_even encdec/unpadded",
        lambda patch: patch.result(patch.model.lm_head, "forward", lambda y: y.bfloat16().to(y.dtype)), "logits"),
    row("E041", "logits of an untied head are scaled as if it were the embedding", "ml-explore/mlx-examples#591",
        "head", "decoder/window_chunks decoder/head_dim_64", scaled_untied, "logits"),
)  # fmt: skip
