"""What the committed goldens' networks do not have – half heads, activations of several ops, norms without weights.

It runs `grammar.activations`, `grammar.biases`, `grammar.elsewhere`, `grammar.siblings`, `grammar.rotations`,
`grammar.layer_types` and `grammar.added` on mistakes of `detection.ported`, and what chooses the line: `slices.source`,
`edits.words`, `edits.explain`.
"""

from __future__ import annotations

import pytest

from detection.ported.row import rows
from detection.ported.run import judged

SAID = {
    "dots1-01": ("divides the chosen by their sum, at modeling_dots1.py:304 in forward",),
    "phi-03": ("has x · sigmoid(1.702 x) for what layers.*.mlp.activation_fn computes",),
    "apertus-01": ("has nothing for softplus, in all 2 lines, at activations.py:283 in _xielu_python",),
    "minimax_m2-03": ("turns 6 channels of each head, not all 10, in all 2 lines, at modeling_minimax_m2.py:188",),
    "nemotron-03": ("turns all 10 channels of each head, not 6 of them, in all 2 lines, at modeling_nemotron.py:125",),
    "bamba-04": ("has the minus at the other half of cat: its result is negated, at modeling_bamba.py:103",),
    "modernbert-02": ("reads what rotary_emb gives as a layer of another type does: full_attention for",),
    "modernbert-04": ("runs a LayerNorm without a weight on layers.*.attn_norm",),
    "cohere-04": ("at modeling_cohere.py:126 in forward, called at modeling_cohere.py:335",) * 2,
    "stablelm-02": ("in forward, called at modeling_stablelm.py:368",) * 2,
    "phi-05": ("leaves the exchange of axes out, the numbers in its shape as they lie, at modeling_phi.py:191",),
    "ernie4_5-05": ("the numbers in its shape as they lie, in lines 216 and 217, at modeling_ernie4_5.py:216",),
    "glm-01": ("turns all 10 channels of each head, not 6 of them, in all 2 lines, at modeling_glm.py:106",),
    "glm-02": ("takes every second number for the halves, at modeling_glm.py:59",) * 2,
    "diffllama-02": ("takes every second number for the halves, at modeling_diffllama.py:299",),
    "lfm2_moe-02": ("has parts 0 and 1 of 3 in each other's place, at modeling_lfm2_moe.py:438",),
    "lfm2_moe-03": ("runs silu on part 0, at modeling_lfm2_moe.py:438",),
    "opt-04": (
        "adds decoder.layers.*.self_attn.out_proj to what decoder.layers.*.self_attn_layer_norm reads",
        *("reads what decoder.layers.*.self_attn_layer_norm reads, not what it gives",) * 3,
        "runs decoder.layers.*.final_layer_norm on decoder.layers.*.self_attn_layer_norm, not on what it reads",
        "reads decoder.layers.*.self_attn_layer_norm for hidden_states (line 234) in add",
    ),
    "jamba-01": ("leaves all 3 norms of layers.*.mamba out: dt_layernorm and b_layernorm and c_layernorm",),
    "jamba-03": ("leaves line 259 of causal_conv1d_fn out, at modeling_jamba.py:259",) * 2,
    "olmo-01": ("divides by the deviation of one less than the count, plus eps, at modeling_olmo.py:57",) * 3,
    "seed_oss-04": ("sets what is to be hidden to 0 or 1e-9, not to a large negative number: keys ahead are seen",),
    "flex_olmo-05": ("joins rows of 2 × 9 in the order of 9 × 2, at modeling_flex_olmo.py:342",) * 2,
    "bamba-07": ("reads hidden_states (line 501), which is made later, for pad in mul, at modeling_bamba.py:498",),
    "bamba-09": ("reads sums of what stands before alone for A_cumsum in exp, at modeling_bamba.py:549",),
    "gpt2-06": ("has x · sigmoid(1.702 x) for what transformer.h.*.mlp.act computes, at modeling_gpt2.py:240",),
    "gpt2-08": ("reads transformer.h.*.attn.c_attn without the bias of part 2 of 3, at modeling_gpt2.py:185",),
    "glm4_moe-10": ("applies mul by sample_weights (line 125) to the result of repeat_interleave before it",),
    "apertus-07": ("takes the mean of value_states along axis 2 off, at modeling_apertus.py:190",),
    "apertus-09": ("at modeling_apertus.py:168 in repeat_kv, called at modeling_apertus.py:181 and 182",),
    "doge-03": (
        "multiplies the other addend by the factor of one, at modeling_doge.py:475 in forward",
        "in all 2 lines",
    ),
    "gemma-04": ("at 2 of 6 taps this fits: it leaves line 175 of apply_rotary_pos_emb out",),
}
"""By the row's name what the first answer to each wrong place says."""


@pytest.mark.sample(every=24)
@pytest.mark.parametrize("name", SAID)
def test_what_is_otherwise_is_said_with_the_line_that_has_it(name: str) -> None:
    (row,) = (row for row in rows() if row.name == name)
    answer = judged(row, "modules")
    assert not answer.failure and len(answer.said) == len(SAID[name])
    for said, words in zip(answer.said, SAID[name], strict=True):
        assert words in said.text
