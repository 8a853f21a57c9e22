"""Diagnoses that are as right as the one a mutant was written for: the same numbers, read in another way.

A linear of scaled states is a scaled weight; rows of a head that are late by one are a shifted weight; on a case whose
chunks are shorter than the window, a window that counts inside the chunk is no window. Each was looked at by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

ALSO: Mapping[str, str] = {
    "own/weight-absolute": "norm.weight_magnitude",
    "QKN-05": "context.value_normed cache.values_normed",  # what the values went through, by where it is seen
    "MLP-01/weights": "mlp.gate_up_exchanged",  # where neither gate nor up is recorded
    "PRJ-04/values": "wiring.layout cache.kv_heads context.strides",
    "own/weight-scaled": "weight.scaled",
    "own/memory-scaled": "weight.scaled",
    "own/weight-head-late": "weight.shifted",
    "own/memory-states-late": "wiring.shifted cache.shifted",
    "own/memory-states-row": "cache.other_row",
    "own/memory-layer-before": "weight.other_tensor",  # every layer reads the same states
    "own/cache-row-late": "cache.shifted",
    "own/unnormed-attention": "norm.no_norm",  # where neither the norm nor what reads it is recorded
    "own/unnormed-block": "norm.no_norm",
    "own/embedding-normed": "norm.twice",  # the first layer's, where its input is not recorded
    "RES-04": "norm.placement",
    "MRG-10": "scores.halves_interleaved context.halves_interleaved",
    "RES-01": "residual.of_normed",
    "NRM-14": "residual.of_normed",
    "NRM-14/sum": "residual.other_stream",
    "MRG-01/keys": "scores.halves_exchanged",
    "own/mask-step-before": "mask.window_off_by_one",
    "MSK-16": "mask.padding_shifted",
    "MSK-25": "mask.window_missing",
    "MSK-08/padding": "mask.inverted",  # what is added as 1 is recorded as hidden
    "own/layer-embedding": "wiring.other_layer",  # the first layer's input
    "own/layer-before": "wiring.copies",  # the layer before's input, bit for bit
    "own/layer-previous-step": "wiring.copies",
    "POS-08": "wiring.previous_step",  # positions that stand still
    "KVC-01/nan": "fit.not_finite",
    "KVC-05/copy": "cache.shifted",
    "KVC-05": "cache.shifted",  # one slot early: the last old one is lost, the new one empty
    "KVC-08": "cache.shifted",  # turned by one slot
    "KVC-10": "cache.overwritten cache.ring",
    "KVC-10/prompt": "cache.ring fit.shift",
    "own/cache-cut": "cache.truncated",
    "own/cache-reversed": "cache.slot_order",
    "own/cache-values-late": "cache.shifted",
    "own/memory-cut": "cache.truncated",
    "own/memory-late": "cache.shifted",
    "own/weight-biases": "weight.other_bias",
    "WLD-09": "weight.byte_order",
    "WLD-17": "weight.fused_layout",
}
"""Mutant to the names of further right diagnoses."""
