"""Mistakes whose words depend on the candidate's numbers, in general words: fitted ones, and edits of a graph."""

from __future__ import annotations

from collections.abc import Mapping

FITTED: Mapping[str, tuple[str, str]] = {
    "cache.quantised": ("holds keys or values of few distinct numbers", "store the cache in the run's dtype"),
    "context.scaled": ("multiplies the sum of weighted values by a number", "probs @ values, as it is"),
    "embedding.zero_row": ("gives some ids rows of zeros (a padding index)", "look every id up in the table"),
    "gradient.rope_not_applied": ("lets the gradient pass RoPE unturned", "turn it back by the same angles"),
    "positions.retained": ("counts the past only as far as a window retains it", "count every token of the past"),
    "gradient.activation_slope": ("lacks the activation's slope, or a part of it", "use the activation's derivative"),
    "gradient.group_first": (
        "takes the first query head of each group alone",
        "add up the gradients of all query heads that share a key-value head",
    ),
    "gradient.group_last": (
        "takes the last query head of each group alone",
        "add up the gradients of all query heads that share a key-value head",
    ),
    "gradient.group_mean": (
        "takes the mean over the query heads of a group",
        "add up the gradients of all query heads that share a key-value head",
    ),
    "gradient.group_tiled": (
        "sums query heads as if they were tiled over the KV heads",
        "add up the gradients of all query heads that share a key-value head",
    ),
    "gradient.rope_direction": (
        "turns gradients forwards as RoPE turns queries and keys",
        "dx = dy cos - rotate_half(dy sin)",
    ),
    "gradient.softmax_sum": (
        "leaves out the sum over the row in the softmax's gradient",
        "dx = p * (dy - sum(p * dy)) over each row",
    ),
    "linear.clamped": ("clamps its result to a bound", "clamp nothing"),
    "logits.log_softmax": ("hands on log_softmax of the logits", "hand on the logits themselves"),
    "logits.softmax": ("hands on probabilities", "hand on the logits themselves"),
    "mlp.gate_order": ("takes gate's channels in another order", "channel i of act is act(gate[i]) * up[i]"),
    "mlp.scaled": ("multiplies the gated product by a number", "act(gate) * up with act = hidden_act"),
    "mlp.up_order": ("takes up's channels in another order", "channel i of act is act(gate[i]) * up[i]"),
    "norm.constant_added": ("adds a number to what the norm gives", "x / sqrt(mean(x²) + eps) * weight"),
    "positions.past_counted_twice": (
        "adds the length of the past to positions that count it already",
        "number the slots once: past + 0, 1, …",
    ),
    "softmax.dropout": ("sets some probabilities to zero and enlarges the others", "put the model in eval mode"),
    "softmax.small_dropped": ("sets small probabilities to zero", "keep every probability"),
    "sum.half_precision": ("adds up in 16 bits", "hold the running sum in float32"),
    "table.scaled": ("multiplies cos and sin by a number (an attention factor)", "scale by the config's factor alone"),
    "tail.undone": ("leaves what is beyond the last whole block undone", "treat the rest behind the last whole block"),
    "weight.constant_added": (
        "has a number added to each of its weights",
        "multiply by the weights as they are stored",
    ),
    "weight.other_bias": ("adds a bias that no tensor of the checkpoint holds", "add the projection's own bias"),
    "weight.scaled": ("has weights multiplied by a number", "multiply by the weights as they are stored"),
    "weight.unknown": (
        "has weights of no tensor of the checkpoint",
        "compare the loader's mapping with the checkpoint",
    ),
}
"""Name -> what is done, what to do. The diagnosis says the number, the channels or the rows with it."""
EDIT_FIX = "do as the reference's line does, which the diagnosis names with file and number"
EDITS: Mapping[str, str] = {
    "edit.added": "runs something more on a result: an activation, a softmax, a scaling to length 1",
    "edit.axis": "works along another axis, over a part of the channels, or over more of them",
    "edit.convolution": "reads other inputs of a convolution: another distance between them, padding at another end",
    "edit.cache": "has the slots of the cache one place off, or the slot before in the newest one",
    "edit.constant": "has another number where the line has a constant, of the config or written into the code",
    "edit.exchanged": "exchanges two operands, halves or parameters",
    "edit.expert": "does otherwise what one expert, or a few, should do: left out, not weighted, loaded otherwise",
    "edit.fitted": "is otherwise by one number that was fitted: a factor, a summand, a power",
    "edit.input": "counts positions otherwise, or reads another input than is given",
    "edit.layer_type": "runs a layer of one type with the angles or the mask of another",
    "edit.left_out": "leaves the op, the line or a part of its operands out",
    "edit.length": "divides by another measure of a vector than its length",
    "edit.mask": "hides or shows other keys",
    "edit.mean_taken_off": "takes the mean off first, as a LayerNorm does",
    "edit.module_left_out": "leaves the module out",
    "edit.moved": "does it at another place: before, behind, or where another module stands",
    "edit.negated": "negates the result",
    "edit.operand": "has another form of an operand",
    "edit.order": "takes the parts in another order, or another part",
    "edit.other_parameter": "reads another parameter of the same shape",
    "edit.pairs": "pairs neighbours for halves, or halves for neighbours",
    "edit.parameter": "has another form of a parameter: plus 1, transposed, rounded",
    "edit.pooling": "pools another token, or a mean, than the last token's vector",
    "edit.reads": "reads what another tap holds",
    "edit.repeated": "repeats blocks for single heads, or the reverse",
    "edit.reversed": "is reversed along an axis",
    "edit.rotation": "turns other channels by RoPE: the last ones, pairs of the whole head, all of them",
    "edit.rounded": "rounds to bfloat16 or float16",
    "edit.shifted": "is shifted along an axis",
    "edit.shard": "sums over a shard's channels alone, or without them, where processes share a product",
    "edit.sibling": "does a like op: a sum for a mean, silu for gelu, a maximum for a minimum",
    "edit.slots": "reads keys and values of other slots, blocks or rows of its cache",
    "edit.state": "loses a recurrence's state between chunks, rounds it, or reads another row's",
    "edit.transposed": "lacks an exchange of axes, or has one too many",
    "edit.twice": "does it twice",
}
"""Name -> what is done, of edits of a golden's graph."""
STRUCTURE_FIX = "compare what it names with the checkpoint, or with the format that the engine stores it in"
MISREAD = frozenset({"structure.misread", "structure.scales_axis"})
"""What names how a weight in few bits is read."""
READ_FIX = "mend how the packed weight is read: codes, zero points and scales as they are stored"
STRUCTURES: Mapping[str, str] = {
    "structure.as_few_bits": "has errors that scatter, as large as a weight in few bits leaves them",
    "structure.block_scaled": "has blocks of its weight multiplied by numbers of their own, as by another's scales",
    "structure.block_shifted": "has a number added to each block of its weight, as by another's zero points",
    "structure.blocks": "has a weight in few bits, with a scale for each block of numbers",
    "structure.clamped_inputs": "has its input clamped to a bound",
    "structure.column_scaled": "has columns of its weight, or channels of its input, multiplied by numbers",
    "structure.columns_permuted": "has the columns of its weight in another order",
    "structure.gradient_parts": "has a part of the gradient's sum missing, or another share of it",
    "structure.gradient_tokens": "leaves tokens out of the gradient's sum, or counts them otherwise",
    "structure.input_channels": "is wrong by some channels of its input alone",
    "structure.low_rank": "has something of low rank added to its weight, as an adapter",
    "structure.misread": "has a weight in few bits read otherwise than it is stored",
    "structure.rounded_both": "has weight and input in few bits",
    "structure.rounded_inputs": "has its input in few bits, with a scale for each block of numbers",
    "structure.row_scaled": "has rows of its weight multiplied by numbers of their own",
    "structure.row_shifted": "has a number added to each row's result, as another bias",
    "structure.rows_repeated": "has rows of its weight in the places of others",
    "structure.rows_replaced": "has the mean of the others in the places of some rows of its weight",
    "structure.scales_axis": "has the scales of its blocks along the other axis",
    "weight.as_loaded": "has weights that were loaded otherwise; with these the op is right",
}
"""Name -> what is done, of what the numbers of a weight or a product say by their structure."""
