"""Which names are a right diagnosis of a bug of a kernel, by what the bug does."""

from collections.abc import Mapping

_ANSWERS = """
products
  scores-dim-tail-4: scores.lost_terms
  scores-dim-tail-doubled: scores.doubled_terms
  scores-keys-tail-4: tail.zero
  scores-heads-tail-4: tail.zero
  scores-odd-query: tail.repeated
  scores-keys-contiguous: scores.strides wiring.layout
  scores-head-stride: scores.strides
  scores-repeat-keys: scores.repeat_axis
  scores-head-tile: scores.kv_heads
  scores-bfloat16-sum: sum.half_precision
  scores-float16-inputs: scores.half_precision
  scores-fp8-keys: scores.half_precision
  context-keys-tail-4: context.lost_terms
  context-keys-tail-doubled: context.doubled_terms
  context-dim-tail-8: tail.zero
  context-odd-query: tail.repeated
  context-values-contiguous: context.strides wiring.layout
  context-repeat-keys: context.repeat_axis
  context-head-tile: context.kv_heads
  context-float16-sum: sum.half_precision
  context-bfloat16-probs: context.half_precision
softmax
  online-accumulator: context.unscaled_blocks
  online-sum: context.unscaled_blocks
  online-neither: context.unscaled_blocks
  split-exchanged: context.merged_splits
  split-equal: context.merged_splits
  split-unweighted: context.merged_splits
  softmax-sum-one: softmax.sink
  softmax-tail-not-summed: softmax.lost_terms
  softmax-tail-summed-twice: softmax.doubled_terms
  softmax-exp-bits: fit.approximated
  softmax-exp-polynomial: fit.approximated
  softmax-exp-float16: softmax.half_precision
  softmax-bfloat16-sum: sum.half_precision
  softmax-log2e: softmax.temperature
linears
  query-inner-tail-16: linear.lost_terms
  query-outer-tail-16: tail.zero
  query-rows-tail-8: tail.zero
  query-leading-dimension: weight.pitch
  value-first-row: wiring.other_row
  value-tiles-exchanged: weight.shards_shuffled fit.permuted
  out-inner-tail-32: linear.lost_terms
  out-last-split: linear.lost_terms
  down-inner-tail-doubled: linear.doubled_terms
  down-bfloat16-sum: sum.half_precision
  down-float16-inputs: linear.half_precision
  gate-int8: weight.quantised
  up-outer-tail-64: tail.zero
  logits-tail-128: tail.zero
  logits-inner-tail-16: linear.lost_terms
  logits-bfloat16: linear.half_precision
elementwise
  norm-width-16: norm.width
  head-norm-width-16: norm.width
  norm-tail-not-squared: norm.lost_terms
  head-norm-tail-unweighted: tail.undone
  norm-one-plus-weight: norm.one_plus_weight
  norm-fast-root: norm.approximated
  norm-bfloat16-sum: sum.half_precision
  norm-rows-in-pairs: norm.shared_statistic
  silu-hard: mlp.activation
  silu-tanh: mlp.activation
  silu-crude-exp: fit.approximated
  silu-float16: mlp.half_precision
  act-tail-16: tail.undone
  rope-pairs-tail-4: rope.partial
  rope-heads-tail-4: tail.undone
  rope-tile-angle: rope.shared_angle
  rope-bfloat16-tables: rope.half_precision
  residual-tail-16: tail.undone
  residual-bfloat16: residual.half_precision
entry
  ids-7-bits: embedding.wrapped
  embedding-float16: weight.rounded
  embedding-tail-16: tail.zero
  positions-8-bits: positions.wrapped table.wrapped_positions
  positions-bfloat16: positions.half_precision table.half_precision
  positions-16-bits: positions.wrapped table.wrapped_positions
  angles-float16: table.half_precision
  frequencies-bfloat16: table.half_precision
  cache-fp8: cache.half_precision rope.half_precision
  cache-dim-tail-8: tail.zero
  mask-tile-edge: mask.tiles
  mask-last-tile: tail.zero
"""

ANSWERS: Mapping[str, frozenset[str]] = {
    name.strip(): frozenset(names.split())
    for name, colon, names in (line.partition(":") for line in _ANSWERS.splitlines())
    if colon
}
"""By the name of a bug. Some name no mistake of the library: it does not know that one."""
