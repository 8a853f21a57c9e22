"""Two ops in the other order, values of a layer read for others, other channels turned: each gives what NumPy gives.

It runs `edits.sources` and `edits.nearest`, and of the grammar `grammar.order`, `grammar.reads` and
`grammar.rotations`, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from recorded import LEVELS
from test_recurrences import honest, region

from detection.ported.row import rows
from detection.ported.run import judged
from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Edit, Free, Site
from qwen3_parity.diagnosis.edits.grammar.blocks import blocks
from qwen3_parity.diagnosis.edits.grammar.elsewhere import elsewhere
from qwen3_parity.diagnosis.edits.grammar.frequencies import frequencies
from qwen3_parity.diagnosis.edits.grammar.order import order
from qwen3_parity.diagnosis.edits.grammar.reads import reads
from qwen3_parity.diagnosis.edits.grammar.rotations import rotations
from qwen3_parity.diagnosis.edits.grammar.siblings import siblings
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.single import alike
from qwen3_parity.diagnosis.edits.sites import of_line
from qwen3_parity.diagnosis.edits.words import model_line, short
from qwen3_spec.graph import Line, Node

MOE = "model/qwen3_moe_dense_layers"
MODULES, LAYERS = (LEVELS[level].pattern for level in ("modules", "layers"))
ATTENTION = "model.layers.1.self_attn"


def of_layer(number: int = 0) -> Region:
    return region(f"model.layers.{number}", of=honest(LAYERS, MOE))


def edit(every: Iterator[Edit | Free], says: str) -> Edit:
    return next(each for each in every if isinstance(each, Edit) and each.says == says)


def value_of(of: Region, name: str) -> int:
    return of.network.graph.taps[name, 0]


def reads_of(of: Region, value: int) -> tuple[int, ...]:
    node = of.node(value)
    return () if node is None else node.reads


def normed(x: Array, weight: Array, eps: float) -> Array:
    return np.asarray(x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * weight)


def test_a_norm_before_the_residual_that_it_is_to_read() -> None:
    """Either part of the sum may be what is normed."""
    here, name = of_layer(), "model.layers.0.post_attention_layernorm"
    end, weight = value_of(here, name), np.float64(here.parameter(f"{name}.weight"))
    residual, branch = (here.base[value_of(here, tap)] for tap in ("model.embed_tokens", "model.layers.0.self_attn"))
    eps = honest(LAYERS, MOE).config["rms_norm_eps"]
    says = "runs layers.*.post_attention_layernorm before the sum with residual, not behind it"
    values = here.values(edit(order(here), says))
    assert values is not None
    np.testing.assert_allclose(values[end], residual + normed(branch, weight, eps), rtol=1e-9, atol=1e-12)


def test_a_matrix_read_transposed_by_a_product() -> None:
    """As a sum over the other of two axes that are as long."""
    here = of_layer()
    transposed = edit(siblings(here), "reads layers.*.self_attn[1] transposed in matmul")
    (end,) = (value for site in transposed.changes for value in here.at(site))
    values, node = here.values(transposed), here.node(end)
    assert values is not None and node is not None
    probs, value = (np.asarray(here.base[read]) for read in node.reads)
    np.testing.assert_allclose(values[end], np.swapaxes(probs, -1, -2) @ value, rtol=1e-9, atol=1e-12)


def test_heads_are_brought_into_another_shape_of_another_value() -> None:
    """Queries that are turned as the projection gave them, not as their norm did."""
    here = region(f"{ATTENTION}.o_proj", of=honest(MODULES, MOE))
    unnormed = edit(reads(here), "reads query_states for layers.*.self_attn.q_norm in transpose")
    ((end,),) = (here.at(site) for site in unnormed.changes)
    values, (normed_heads,) = here.values(unnormed), reads_of(here, end)
    projected = here.network.slices.recorded[value_of(here, f"{ATTENTION}.q_proj")]
    assert values is not None
    np.testing.assert_array_equal(
        values[end], projected.reshape(np.shape(here.base[normed_heads])).swapaxes(1, 2).astype(np.float64)
    )


def test_the_factor_of_one_addend_on_the_other() -> None:
    """Queries that are turned: the halves that are exchanged by both factors, the others by none."""
    here = of_layer()
    turned = edit(elsewhere(here), "multiplies the other addend by the factor of one")
    ((end,),) = (here.at(site) for site in turned.changes)
    values, (first, second) = here.values(turned), (here.node(read) for read in reads_of(here, end))
    assert values is not None and first is not None and second is not None
    query, cos, rotated, sin = (here.base[read] for node in (first, second) for read in node.reads)
    np.testing.assert_allclose(values[end], query + rotated * sin * cos, rtol=1e-9, atol=1e-12)


def test_a_module_on_a_value_that_the_reference_makes_behind_it() -> None:
    """A shared expert behind the experts, not beside them; in a draw their noise is its own, too."""
    here, path = region("model.layers.0", of=honest(LAYERS)), "model.layers.0.mlp.shared_expert"
    says = "runs layers.*.mlp.shared_expert on layers.*.mlp.experts, not on what it reads"
    behind = edit(blocks(here), says)
    ((end,),) = (here.at(site) for site in behind.changes)
    gate, up, down = (np.float64(here.parameter(f"{path}.{name}_proj.weight")) for name in ("gate", "up", "down"))
    draw = here.network.slices.draws[0]
    for values in (here.values(behind), here.values(behind, draw)):
        assert values is not None
        x = values[value_of(here, "model.layers.0.mlp.experts")]
        x = np.reshape(x, (*np.shape(values[end])[:-1], -1))
        expected = (x @ gate.T / (1 + np.exp(-x @ gate.T)) * (x @ up.T)) @ down.T
        np.testing.assert_allclose(values[end], expected, rtol=1e-4, atol=1e-6)


def test_a_product_before_the_activation_behind_a_recorded_value() -> None:
    """The activation is recorded, what multiplies it stands behind: its own value is that of the product."""
    here = region("model.layers.0.mlp.act_fn", of=honest(MODULES, MOE))
    gate, up = (here.network.slices.recorded[value_of(here, f"model.layers.0.mlp.{x}_proj")] for x in ("gate", "up"))
    swapped = (each for each in order(here) if each.says.endswith("before layers.*.mlp.act_fn, not behind it"))
    result = next(x for each in swapped if (x := here.edited(each)) is not None)
    product = np.float64(gate) * up
    np.testing.assert_allclose(result, product / (1 + np.exp(-product)), rtol=1e-9, atol=1e-12)


def test_ops_whose_order_changes_nothing_are_not_exchanged() -> None:
    for each in order(region()):
        assert not re.fullmatch(r"(multiplies by|divides by) \S+ before the product with .*", each.says)
        assert not re.fullmatch(r"adds \S+ before the sum with .*", each.says)


def test_variables_of_a_layer_are_read_for_others() -> None:
    """The sum of the residual is no module's result: its numbers are those of the ops that make it."""
    here = region("model.layers.0.mlp.gate_proj", of=honest(MODULES, MOE))
    parts = ("model.embed_tokens", "model.layers.0.self_attn.o_proj")
    total = sum(np.float64(here.network.slices.recorded[value_of(here, part)]) for part in parts)
    names = [name for name in here.sources if re.fullmatch(r"hidden_states \(line \d+\)", name)]
    name = next(name for name in names if np.shape(here.source(name)) == np.shape(total))
    np.testing.assert_allclose(here.source(name), total, rtol=1e-12)
    every = (each.says for each in reads(here) if isinstance(each, Edit))
    assert any(says.startswith(f"reads {name} for layers.*.post_attention_layernorm") for says in every)


def test_of_a_line_that_ran_for_two_norms_the_last_before_the_op_is_read_and_named() -> None:
    """By layers alone both norms are inside, of a class whose line is that of both."""
    here = of_layer()
    last = here.node(here.value)
    assert last is not None and short(last.op) == "add"
    said = {each.says for each in reads(here) if isinstance(each, Edit) and each.says.endswith(" in add")}
    assert any(says.startswith("reads layers.*.post_attention_layernorm for hidden_states (line") for says in said)
    assert not any(says.startswith("reads layers.*.input_layernorm for hidden_states (line") for says in said)


def test_a_sum_is_the_same_op_in_the_first_layer_whose_residual_another_op_makes() -> None:
    first, second = of_layer(0), of_layer(1)
    strange = [site for site in second.sites if site.op.startswith("add.") and site.file and site not in first.sites]
    assert strange, "the embeddings are no sum"
    for site in strange:
        (value,) = first.at(site)
        node = first.node(value)
        assert node is not None and (node.op, node.lines[-1].number) == (site.op, site.number)


def test_a_part_of_a_split_is_no_other_part_of_its_line() -> None:
    """They are of one kind and line, and told apart by their number."""
    first, second = (Site("a.py", 3, "getitem", (f"split:{3}", repr(part))) for part in (0, 1))
    assert of_line(first, {second: [7]}) == []
    assert of_line(first._replace(op="mul.Tensor"), {second._replace(op="mul.Tensor"): [7]}) == [7]


def test_no_source_follows_from_the_value_itself() -> None:
    here = region("model.layers.1.post_attention_layernorm", of=honest(MODULES, MOE))
    behind = {here.value}
    for value, node in enumerate(here.network.graph.nodes, len(here.network.graph.leaves)):
        behind |= {value} if behind & {*node.reads} else set()
    assert len(here.sources) > 10 and behind.isdisjoint(here.sources.values())


def head_of(here: Region) -> tuple[Array, Array, Array, int]:
    """Queries before RoPE, cosines and sines of a head's first channels, and the number of the joined value."""
    graph, taps = here.network.graph, here.network.slices.recorded
    query = taps[graph.taps[f"{ATTENTION}.q_norm", 0]]
    cos, sin = (taps[graph.taps[name, 0]] for name in ("model.rotary_emb", "model.rotary_emb[1]"))
    cats = (value for value in here.order if (node := here.node(value)) is not None and short(node.op) == "cat")
    heads = (query.shape[0], query.shape[2], query.shape[1], query.shape[3])
    joined = next(value for value in cats if np.shape(here.base[value]) == heads)
    return np.float64(query).swapaxes(1, 2), np.float64(cos[:, None]), np.float64(sin[:, None]), joined


def turned(x: Array, cos: Array, sin: Array) -> Array:
    left, right = np.split(x, 2, -1)
    return np.asarray(x * cos + np.concatenate([-right, left], -1) * sin)


def rotated(says: str) -> tuple[Array, Array, Array, Array]:
    """What the edit of a family that turns a quarter of each head makes of the queries, and what they are made of."""
    here = region(f"{ATTENTION}.o_proj", of=honest(MODULES))
    query, cos, sin, joined = head_of(here)
    width, size = query.shape[-1], cos.shape[-1]
    values = here.values(edit(rotations(here), says.format(width=width, size=size, half=width // 2, pairs=size // 2)))
    assert values is not None
    return values[joined], query, cos, sin


def test_the_last_channels_are_turned_for_the_first() -> None:
    result, query, cos, sin = rotated("turns the last {size} channels of each head, not the first")
    at = query.shape[-1] - cos.shape[-1]
    expected = np.concatenate([query[..., :at], turned(query[..., at:], cos, sin)], -1)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_pairs_lie_half_of_the_whole_head_apart() -> None:
    says = "takes channels {half} apart for pairs, half of the whole head, not {pairs}"
    result, query, cos, sin = rotated(says)
    width, pairs = query.shape[-1], cos.shape[-1] // 2
    rest = width // 2 - pairs
    wide = [np.concatenate([np.split(x, 2, -1)[0], np.full((*x.shape[:-1], rest), fill)] * 2, -1)
            for x, fill in ((cos, 1.0), (sin, 0.0))]  # fmt: skip
    np.testing.assert_allclose(result, turned(query, *wide), rtol=1e-6, atol=1e-6)


def test_all_channels_are_turned_by_frequencies_of_the_whole_head() -> None:
    result, query, _, _ = rotated("turns all {width} channels of each head, not {size} of them")
    config, width = honest().config, query.shape[-1]
    base = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    positions = honest().golden["input.position_ids", 0].array[:, : query.shape[2]]
    angles = positions[:, None, :, None] * np.tile(base ** (-np.arange(0, width, 2) / width), 2)
    np.testing.assert_allclose(result, turned(query, np.cos(angles), np.sin(angles)), rtol=1e-6, atol=1e-6)


def test_of_more_tokens_than_are_looked_for_no_channels_are_turned_by_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = region(f"{ATTENTION}.o_proj", of=honest(MODULES))
    whole = next(each for each in rotations(here) if each.says.startswith("turns all "))
    assert here.edited(whole) is not None
    monkeypatch.setattr(sys.modules[rotations.__module__], "_MOST", 1)
    assert here.edited(whole) is None


def test_frequencies_that_begin_with_0_have_no_base() -> None:
    here = honest(MODULES)
    (leaf,) = (leaf for name, leaf in here.graph.leaves.items() if name.endswith("inv_freq"))
    of = region("model.rotary_emb", of=here)
    assert list(frequencies(of))
    of.base[leaf] = np.array([0, 1, 0.1, 0.01])
    assert not list(frequencies(of))


def test_what_two_lines_of_a_function_do_alike_is_one_edit() -> None:
    """Queries and keys are turned by a line each."""
    edits = [each for each in reads(of_layer()) if isinstance(each, Edit)]
    (queries, keys) = (replace(edits[0], changes={site: len}) for site in [*of_layer().sites][:2])
    assert [{*each.changes} for each in alike([queries, keys])] == [{*queries.changes, *keys.changes}]
    assert not alike([queries]) and not alike([queries, replace(keys, says="something else")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "level", "says"),
    [
        ("exaone4-02", "layers", "runs layers.*.post_feedforward_layernorm before layers.*.mlp"),
        ("gemma4-05", "modules", "multiplies by per_layer_input before layers.*.act_fn"),
        ("glm4_moe-03", "layers", "runs layers.*.mlp.shared_experts on hidden_states (line"),
        ("falcon_h1-04", "modules", "reads mamba_hidden_states"),
        ("nemotron-03", "layers", "turns all 10 channels of each head"),
        ("nemotron-04", "layers", "takes no mean off"),
        ("olmoe-05", "modules", "runs layers.*.post_attention_layernorm on layers.*.mlp"),
        ("minimax_m2-02", "modules", "reads routing_weights for top_k_weights"),
        ("deepseek_v2-01", "layers", "transposes, where 2 × 2 are meant, in all 2 lines"),
        ("glm4_moe-03", "modules", "called at modeling_glm4_moe.py:390"),
        ("qwen2-04", "layers", "has the first halves of layers.*.mlp.gate_proj and layers.*.mlp.up_proj"),
        ("gemma4-04", "modules", "4 times the exponents"),
        ("mamba2-11", "modules", "leaves out mul by dt (line 216), in every step but the first"),
        ("roberta-09", "layers", "adds the bias of roberta.encoder.layer.*.intermediate.dense behind gelu, not before"),
        ("qwen3_5_moe-01", "modules", "reads last_recurrent_state (line 480) transposed in mul"),
        ("bloom-07", "modules", "has key_layer and value_layer in each other's place: parts 1 and 2 of 3"),
    ],
)
def test_what_ports_exchange_is_named(name: str, level: str, says: str) -> None:
    (row,) = (row for row in rows() if row.name == name)
    result = judged(row, level)
    assert not result.failure, result.failure
    assert says in result.said[0].text, result


@pytest.mark.parametrize("file", ["runtime_assert.py", "linear.py"])
def test_a_line_of_torchs_own_is_never_said(file: str) -> None:
    torchs, models = Line(file, 24, "forward"), Line("modeling_any.py", 113, "forward")
    node = Node("sym_size", (), {}, "", (), "", (torchs,))
    assert model_line(node) is None and model_line(replace(node, lines=(models, torchs))) == models
