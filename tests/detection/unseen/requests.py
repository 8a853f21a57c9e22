"""What a server and a search do between forwards: ids, rows, beams, filters."""

from __future__ import annotations

from typing import Any

import torch
from transformers import EncoderDecoderCache
from transformers.generation.logits_process import TopKLogitsWarper

from detection.mutants.patch import Patch
from detection.unseen.row import row
from qwen3_encdec.merged_attention import Qwen3MergedAttention
from qwen3_encdec.modeling_qwen3_decoder import Qwen3Decoder

_CACHES = "merged_attn.cache_keys merged_attn.cache_values"
_STEPS, _BEAMS = "decoder/ragged_decode", "generation/beams"


def _values_stay(patch: Patch) -> None:
    def reorder(plain: Any, cache: Any, beams: torch.Tensor) -> None:
        held = [layer.values for layer in cache.self_attention_cache.layers]
        plain(cache, beams)
        for layer, values in zip(cache.self_attention_cache.layers, held, strict=True):
            layer.values = values

    patch.wrap(EncoderDecoderCache, "reorder_cache", reorder)


def _last_layer_stays(patch: Patch) -> None:
    def reorder(plain: Any, cache: Any, beams: torch.Tensor) -> None:
        last = cache.self_attention_cache.layers[-1]
        held = last.keys, last.values
        plain(cache, beams)
        last.keys, last.values = held

    patch.wrap(EncoderDecoderCache, "reorder_cache", reorder)


def _tiled_memory(patch: Patch) -> None:
    def project(plain: Any, module: Any, states: torch.Tensor, tables: Any) -> Any:
        sources = states[::3]  # three beams a source
        return plain(module, sources.repeat(3, 1, 1), tables)

    patch.wrap(Qwen3MergedAttention, "encoder_keys_values", project)


def _ids_late(patch: Patch) -> None:
    fed: list[torch.Tensor] = []

    def forward(plain: Any, stack: Any, input_ids: torch.Tensor, **rest: Any) -> Any:
        late = fed[-1] if fed and input_ids.shape[1] == 1 else input_ids
        fed.append(input_ids[:, -1:])
        return plain(stack, input_ids=late, **rest)

    patch.wrap(Qwen3Decoder, "forward", forward)


def _sorted_rows(patch: Patch) -> None:
    order: list[torch.Tensor] = []

    def forward(plain: Any, stack: Any, *, attention_mask: torch.Tensor, **rest: Any) -> Any:
        order[:] = [attention_mask.sum(1).argsort(descending=True, stable=True)]
        return plain(stack, attention_mask=attention_mask, **rest)

    patch.wrap(Qwen3Decoder, "forward", forward)
    patch.result(patch.model.lm_head, "forward", lambda logits: logits[order[0]])


def _one_more(patch: Patch) -> None:
    def build(plain: Any, **settings: Any) -> Any:
        filters = plain(**settings)
        for processor in filters:
            if isinstance(processor, TopKLogitsWarper):
                processor.top_k += 1
        return filters

    patch.wrap(patch.model, "_get_logits_processor", build)


ROWS = (
    row("S12", "beam search reorders keys, not values", _values_stay, "merged_attn.cache_values",
        ["beams.not_reordered"], _BEAMS, "logits"),
    row("S13", "beam search does not reorder the last layer of the cache", _last_layer_stays, _CACHES,
        ["beams.not_reordered"], _BEAMS, "layer"),
    row("S14", "the encoder's memory is expanded for beams by tiling, not interleaved", _tiled_memory,
        "merged_attn.encoder_k_proj merged_attn.encoder_v_proj",
        ["from.other_row", "wiring.other_row: 0, 3, 0|tiled|row 1 ← row 3", "*: tiled"], _BEAMS, "modules"),
    row("S20", "asynchronous scheduling: decode steps are fed the id of the step before", _ids_late,
        "decoder.embed_tokens", ["embedding.other_slot", "from.other_step", "from.other_slot", "wiring.previous_step"],
        _STEPS, "layer"),
    row("S21", "the batch is sorted by length for the kernel, logits are not put back in order", _sorted_rows, "logits",
        ["*: rows? 0, 2(,| and) 1|row 1 ← (batch )?row 2|2 ← 1, 1 ← 2|rows 2, 1"], _STEPS, "modules"),
    row("H2", "top-k keeps k + 1", _one_more, "next_token_probs", ["top_k.off_by_one"], "generation/sample", "layer"),
)  # fmt: skip
