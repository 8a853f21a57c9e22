"""Diagnoses that are as right as the one a mutant was written for: the same numbers, read in another way.

A linear of scaled states is a scaled weight; rows of a head that are late by one are a shifted weight; on a case whose
chunks are shorter than the window, a window that counts inside the chunk is no window. Each was looked at by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

ALSO: Mapping[str, str] = {
    "own/norm-last-channel": "weight.unknown",  # no tensor of the checkpoint: the last channel differs
    "own/weight-absolute": "norm.weight_magnitude",
    "PRJ-04/values": "wiring.layout cache.kv_heads",
    "own/context-channels": "weight.heads_shuffled",
    "own/context-negative": "context.scaled",  # by -1
    "SMX-04": "softmax.not_finite",
    "MSK-12": "softmax.not_finite",
    "MSK-12/decoder": "softmax.not_finite",
    "own/mlp-no-up": "mlp.no_up",
    "own/embedding-last-token": "embedding.other_slot",
    "HED-12": "linear.half_precision",
    "own/head-scaled": "weight.scaled",
    "T5B-08": "weight.scaled",
    "own/weight-scaled": "weight.scaled",
    "own/memory-scaled": "weight.scaled",
    "own/head-rows": "weight.shifted",
    "own/weight-head-late": "weight.shifted",
    "own/head-last-token": "wiring.one_position",
    "own/memory-states-late": "wiring.shifted",
    "RES-01": "residual.of_normed",
    "NRM-14": "residual.of_normed",
    "NRM-14/sum": "residual.other_stream",
    "own/residual-minus": "residual.subtracted",
    "own/mask-first-hidden": "mask.first_key_hidden",
    "own/mask-half-window": "mask.window_split",
    "own/mask-step-before": "mask.window_off_by_one",
    "own/mask-row-in-softmax": "wiring.other_row",
    "MSK-16": "mask.padding_shifted",
    "MSK-25": "mask.window_missing",
    "MSK-08/padding": "mask.inverted",  # what is added as 1 is recorded as hidden
    "own/layer-embedding": "wiring.other_layer",  # the first layer's input
    "own/layer-before": "wiring.copies",  # the layer before's input, bit for bit
    "own/layer-previous-step": "wiring.copies",
    "POS-08": "wiring.previous_step",  # positions that stand still
    "KVC-01/nan": "fit.not_finite",
    "KVC-05/copy": "cache.shifted",
    "KVC-10": "cache.overwritten",
    "KVC-10/prompt": "cache.ring fit.shift",
    "own/cache-cut": "cache.truncated",
    "own/memory-cut": "cache.truncated",
    "own/memory-late": "cache.shifted",
    "own/weight-biases": "weight.other_bias",
    "WLD-09": "weight.byte_order",
    "WLD-17": "weight.fused_layout",
}
"""Mutant to the names of further right diagnoses."""
