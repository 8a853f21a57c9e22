"""A mistake in the reference's own source is said as that edit, with its line: by modules, and by layers alone.

It runs `edits.blocks` and `edits.visibility`, and of the grammar `grammar.added`, `grammar.blocks`,
`grammar.elsewhere`, `grammar.order`, `grammar.places`, `grammar.reads`, `grammar.siblings` and
`grammar.at_once`, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from recorded import candidate, diagnosed, golden, network, weights
from transformers.models.qwen3_moe import modeling_qwen3_moe as modeling

from detection.families.patch import changed
from detection.ported.substituted import Change, substituted
from qwen3_golden import write
from qwen3_parity.diagnosis import by_graph, diagnose
from qwen3_parity.diagnosis.edits.explain import explain
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.report.diagnoses import explained
from qwen3_parity.slices.check import judged_by_graph

MOE = "Qwen3Moe"
NORM, ROUTER, ATTENTION, LAYER = (
    f"{MOE}{name}.forward" for name in ("RMSNorm", "TopKRouter", "Attention", "DecoderLayer")
)
ATTEND, TURN = "eager_attention_forward", "apply_rotary_pos_emb"
CUT = "(hidden_states).view(hidden_shape)"
NORMED = f"""query_states = self.q_norm(self.q_proj{CUT}).transpose(1, 2)
        key_states = self.k_norm(self.k_proj{CUT}).transpose(1, 2)
        value_states = self.v_proj{CUT}.transpose(1, 2)

        cos, sin = position_embeddings
        query_states, key_states = {TURN}(query_states, key_states, cos, sin)"""
TURNED = f"""query_states, key_states, value_states = (
            layer{CUT}.transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = {TURN}(query_states, key_states, *position_embeddings)
        query_states, key_states = self.q_norm(q), self.k_norm(k)"""
WEIGHTED = """variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)"""
WEIGHTED_FIRST = """hidden_states = self.weight * hidden_states
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return hidden_states * torch.rsqrt(variance + self.variance_epsilon)"""
SCORES = """attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask

    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32)"""
SCALED_LATE = """attn_weights = torch.matmul(query, key_states.transpose(2, 3))
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask

    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).mul(scaling)"""
APART = """residual = residual + hidden_states

        # Fully Connected
        hidden_states = self.post_attention_layernorm(hidden_states)"""
SUMMED = """hidden_states = residual + hidden_states

        # Fully Connected
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)"""
SQUARES = "hidden_states.pow(2).mean(-1, keepdim=True)"
SOFTMAX = "nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32)"
IN_SOURCE = {
    "a sum for a mean": (NORM, "pow(2).mean(-1, keepdim=True)", "pow(2).sum(-1, keepdim=True)", "sum, no mean"),
    "no root": (NORM, "torch.rsqrt(variance + self", "torch.reciprocal(variance + self", "reciprocal for rsqrt"),
    "halves exchanged": ("rotate_half", "(-x2, x1)", "(x1, -x2)", "parts in the order 1, 0"),
    "the other half's minus": ("rotate_half", "(-x2, x1)", "(x2, -x1)", "has the minus at the other half of cat"),
    "keys not turned": ("apply_rotary_pos_emb", "(k * cos) + (rotate_half(k) * sin)", "k", "line 79 of apply_rotary"),
    "scale left out": ("eager_attention_forward", ".transpose(2, 3)) * scaling", ".transpose(2, 3))", "mul by 0.5"),
    "keys tiled": ("repeat_kv", "[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)",
                   "[:, None, :, :, :].expand(batch, n_rep, num_key_value_heads, slen, head_dim)", "tiles"),
    "cos for sin": ("apply_rotary_pos_emb", "(rotate_half(q) * sin)", "(rotate_half(q) * cos)", "reads cos (line 7"),
    "mask left out": ("eager_attention_forward", "attn_weights + attention_mask", "attn_weights", "leaves out add"),
    "mask moved": (ATTEND, "weights + attention_mask", "weights + attention_mask.roll(1, -1)", "before along"),
    "axes not exchanged": (ATTEND, "attn_output.transpose(1, 2)", "attn_output", "leaves the exchange of axes out"),
    "another's norm": (LAYER, "self.post_attention_layernorm(", "self.input_layernorm(",
                       "has layers.*.input_layernorm.weight for layers.*.post_attention_layernorm.weight"),
    "values normed": (ATTENTION, f"self.v_proj{CUT}", f"self.k_norm(self.v_proj{CUT})", "self_attn.k_norm on"),
    "channels transposed": (ATTENTION, f"self.k_proj{CUT}",
                            "self.k_proj(hidden_states).view(*input_shape, self.head_dim, -1).mT", "and transposes"),
    "keys for values": (ATTENTION, "update(key_states, value_states,", "update(value_states, key_states,",
                        "in each other's place"),
    "RoPE before the norms": (ATTENTION, NORMED, TURNED, TURN),
    "a router's rows": (ROUTER, "F.linear(hidden_states,", "F.linear(F.normalize(hidden_states, dim=-1),", "length 1"),
    "a router's silu": (ROUTER, "F.linear(hidden_states, self.weight)", "F.silu(F.linear(hidden_states, self.weight))",
                        "runs silu on the result of linear"),
    "a router's square": (ROUTER, "F.linear(hidden_states, self.weight)", "F.linear(hidden_states, self.weight)**2",
                          "runs a square on the result of linear"),
    "statistics of halves": (NORM, "hidden_states.pow(2).mean(-1, keepdim=True)", "hidden_states.pow(2)."
                             "unflatten(-1, (2, -1)).mean(-1, keepdim=True).repeat_interleave("
                             "hidden_states.shape[-1] // 2, -1).flatten(-2)", "on each of 2 parts by itself"),
    "statistics of all heads": (NORM, "mean(-1, keepdim=True)", "mean((-2, -1), keepdim=True)", "over axis -2"),
    "hidden late": (ATTEND, "attn_weights = attn_weights + attention_mask\n\n    attn_weights = nn.functional."
                              "softmax(attn_weights, dim=-1, dtype=torch.float32)",
                              "attn_weights = nn.functional.softmax(attn_weights, -1) * (attention_mask == 0)\n\n"
                              "    attn_weights = attn_weights", "hides keys behind the softmax"),
    "values clamped": (ATTENTION, f"self.v_proj{CUT}", f"self.v_proj{CUT}.clamp(-0.5, 0.5)", "±0.5"),
    "the weight first": (NORM, WEIGHTED, WEIGHTED_FIRST, "by the weight before"),
    "one head for all": ("repeat_kv", "[:, :, None, :, :]", "[:, :1, None, :, :]", "repeats index 0 of axis 1 alone"),
    "channels by heads": (ATTENTION, f"self.q_proj{CUT}", "self.q_proj(hidden_states).unflatten(-1, (2, self.config."
                          "num_attention_heads, -1)).transpose(-3, -2).flatten(-3).view(hidden_shape)", "heads × "),
    "newest key hidden": (ATTEND, "weights + attention_mask", "weights + attention_mask.masked_fill(torch.ones("
                          "query.shape[2], key.shape[2], dtype=bool).triu(key.shape[2] - query.shape[2]), "
                          "torch.finfo(query.dtype).min)", "own, newest key is hidden"),
    "one row of the mask": (ATTEND, "weights + attention_mask", "weights + attention_mask[:, :, -1:]",
                            "keys ahead are seen"),
    "the mask moved in later steps": (ATTEND, "weights + attention_mask", "weights + (attention_mask if query.shape[2] "
                                      "> 1 else attention_mask.roll(1, -1))", "in every step but the first"),
    "hidden too little": (ATTEND, "weights + attention_mask", "weights + attention_mask.clamp(-3.0)", "hides by -3,"),
    "embeddings scaled": (f"{MOE}Model.forward", "self.embed_tokens(input_ids)",
                          "self.embed_tokens(input_ids) * self.config.hidden_size**0.5",
                          "scales embed_tokens by 4, at modeling_qwen3_moe.py:465 in forward, read at"),
    "the scale behind the softmax": (ATTEND, SCORES, SCALED_LATE, "mul by 0.5 to the result of softmax behind it"),
    "scores squared": (ATTEND, ".transpose(2, 3)) * scaling",
                       ".transpose(2, 3)) * torch.matmul(query, key_states.transpose(2, 3))", "has matmul for 0.5"),
    "the branch alone": (LAYER, SUMMED, APART, "not on the result of add|leaves out add of embed_tokens"),
    "the first channels": (NORM, SQUARES, "hidden_states[..., :4].pow(2).mean(-1, keepdim=True)",
                           "over the first 4 channels alone"),
    "softmax of halves": (ATTEND, SOFTMAX, "torch.cat([part.softmax(-1) / 2 for part in attn_weights.chunk(2, -1)],"
                          " -1)", "of each of 2 parts by itself, divided by 2"),
    "eps behind the root": (NORM, "torch.rsqrt(variance + self.variance_epsilon)",
                            "1 / (variance.sqrt() + self.variance_epsilon)", "adds eps behind the root"),
    "tables in bfloat16": (f"{MOE}RotaryEmbedding.forward", "return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)",
                           "return cos.bfloat16().float(), sin.bfloat16().float()", "to bfloat16"),
    "an expert never chosen": (ROUTER, "torch.topk(router_probs,", "torch.topk(router_probs.index_fill(-1, torch."
                               "tensor([self.num_experts - 1]), -1),", "never chooses the last"),
    "values of size 1": (ATTENTION, f"self.v_proj{CUT}", f"torch.nn.functional.rms_norm(self.v_proj{CUT}, "
                         "(self.head_dim,), None, 3e-5)", "runs a norm without a weight on"),
    "silu of both": (f"{MOE}MLP.forward", "* self.up_proj(x)", "* self.act_fn(self.up_proj(x))", "runs silu on"),
}  # fmt: skip
by_mistake = pytest.mark.parametrize("mistake", IN_SOURCE)


@contextmanager
def mistaken(mistake: str) -> Iterator[Any]:
    """The golden's model as the changed source makes it."""
    function, old, new, _ = IN_SOURCE[mistake]
    with substituted(Change(name=mistake, module=modeling.__name__, function=function, old=old, new=new)):
        yield network()


@pytest.mark.sample(every=17)
@by_mistake
@pytest.mark.parametrize("level", ["modules", "layers"])
def test_a_mistake_in_the_references_source_is_said_as_that_edit(mistake: str, level: str, tmp_path: Path) -> None:
    with mistaken(mistake) as model:
        diagnosis = diagnosed(model, tmp_path, level)
    assert diagnosis.faults
    for fault in diagnosis.faults:
        best = fault.explanations[0]
        assert any(words in best.says for words in IN_SOURCE[mistake][3].split("|"))
        assert best.whole == best.of and not fault.stopped
        assert ".py:" in best.says and best.fix


@pytest.mark.slow
def test_numbers_are_fitted_and_said_beside_the_references(tmp_path: Path) -> None:
    model = network()
    with changed(model.model.layers[1].self_attn, "scaling", 0.77):
        diagnosis = diagnosed(model, tmp_path, "layers")
    (fault,) = diagnosis.faults
    assert fault.explanations[0].says.startswith("has 0.77 for 0.5") and "* scaling" in fault.explanations[0].fix


@pytest.mark.slow
def test_a_parameter_of_another_layer_is_said_by_its_name(tmp_path: Path) -> None:
    model = network()
    layers = model.model.layers
    layers[0].self_attn.o_proj.weight = layers[1].self_attn.o_proj.weight
    diagnosis = diagnosed(model, tmp_path)
    says = [fault.explanations[0].says for fault in diagnosis.faults]
    assert "has layers.1.self_attn.o_proj.weight for layers.0.self_attn.o_proj.weight" in says


def test_experts_that_were_loaded_in_the_order_of_their_names_are_said(tmp_path: Path) -> None:
    model = network()
    every = [layer.mlp.experts for layer in model.model.layers if hasattr(layer.mlp, "experts")]
    for experts in every:
        order = sorted(range(len(experts.down_proj)), key=str)
        assert len(order) > 10
        for weight in (experts.gate_up_proj, experts.down_proj):
            weight.data = weight.data[order]
    (fault,) = diagnosed(model, tmp_path).faults
    assert "mlp.experts in the order of their names as text: 0, 1, 10" in fault.explanations[0].says


@pytest.mark.slow
def test_experts_that_are_one_further_in_the_circle_are_said(tmp_path: Path) -> None:
    old, new = "reshaped, selected_experts,", "reshaped, (selected_experts + 1) % 11,"
    function = f"{MOE}SparseMoeBlock.forward"
    with substituted(Change(name="circle", module=modeling.__name__, function=function, old=old, new=new)):
        faults = diagnosed(network(), tmp_path).faults
    assert faults and all("+1, modulo 11 (" in fault.explanations[0].says for fault in faults)


@pytest.mark.slow
def test_what_no_edit_gives_has_no_name(tmp_path: Path) -> None:
    model = network()
    projection = model.model.layers[1].self_attn.o_proj
    noise = torch.Generator().manual_seed(0)
    projection.register_forward_hook(lambda _, __, y: y + 0.1 * torch.randn(y.shape, generator=noise))
    diagnosis = diagnosed(model, tmp_path)
    assert diagnosis.faults and not any(fault.explanations for fault in diagnosis.faults)


@pytest.mark.parametrize("level", ["modules", "layers"])
def test_a_factor_of_one_loaded_weight_is_told_of_that_parameter(level: str, tmp_path: Path) -> None:
    model = network()
    model.model.layers[1].self_attn.o_proj.weight.data *= 1.05
    (fault,) = diagnosed(model, tmp_path, level).faults
    assert [said.says.partition(", at ")[0] for said in fault.explanations] == [
        "has layers.*.self_attn.o_proj.weight, which was not loaded as the checkpoint has it, multiplied by 1.05"
    ]


def test_a_dense_layer_of_an_experts_width_is_told(tmp_path: Path) -> None:
    model = network()
    width, product = model.config.moe_intermediate_size, model.model.layers[1].mlp.down_proj
    product.register_forward_pre_hook(lambda _, args: (args[0] * (torch.arange(args[0].shape[-1]) < width),))
    said = [each.says for fault in diagnosed(model, tmp_path).faults for each in fault.explanations]
    assert said and all(f"reads the first {width} (moe_intermediate_size) of" in each for each in said)


def test_an_honest_run_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_graph, "explain", lambda *_, **__: pytest.fail("nothing is wrong"))
    assert not diagnosed(network(), tmp_path).faults


@pytest.mark.slow
@pytest.mark.parametrize("look", ["explain", "misplaced", "right_as_held"])
def test_a_search_that_fails_is_told_as_ours_and_the_verdict_stands(
    look: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("inhomogeneous")

    monkeypatch.setattr(by_graph, look, fails)
    model = network()
    model.model.layers[1].mlp.down_proj.register_forward_hook(lambda _, __, y: 2 * y)
    diagnosis = diagnosed(model, tmp_path)
    assert diagnosis.faults and diagnosis.verdicts.exit_code == 1
    assert any(line.startswith("harness bug: ") and "inhomogeneous" in line for line in diagnosis.failures)


@pytest.mark.slow
def test_the_search_ends_by_counted_work_and_says_so(tmp_path: Path) -> None:
    model = network()
    model.model.layers[1].mlp.down_proj.register_forward_hook(lambda _, __, y: y.sin())
    judged = judged_by_graph(golden(), candidate(model, tmp_path, "layers"), weights())
    wrong = tuple(part.verdict for part in judged.alone if not part.verdict.passed)
    assert judged.network is not None
    by_edits = explain(Fault("model.layers.{layer}", (), wrong), judged.network, (), 10_000_000)
    assert by_edits.stopped and by_edits.work < 300_000_000


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "says"), [("work", "diagnose --effort 4"), ("deadline", "--budget cut the search")])
def test_a_network_with_a_graph_is_searched_as_long_as_is_asked_for(limit: str, says: str, tmp_path: Path) -> None:
    model = network()
    model.model.layers[1].mlp.down_proj.register_forward_hook(lambda _, __, y: y.sin())
    mine = candidate(model, tmp_path, "layers")
    options: dict[str, Any] = {"work": 0} if limit == "work" else {"deadline": 1.0, "clock": lambda: 2.0}
    (fault,) = diagnose(golden(), mine, weights(), **options).faults
    assert fault.stopped and fault.cut == (limit == "deadline")
    assert says in "".join(map(str, explained(fault)))


SAID = """
import sys
from qwen3_golden import read
from qwen3_parity.diagnosis import diagnose
from recorded import golden, weights
for fault in diagnose(golden(), read(sys.argv[1]), weights()).faults:
    print(fault.explanations, fault.findings)
"""


@pytest.mark.slow
def test_the_same_recording_has_the_same_answer_whatever_the_order_of_sets(tmp_path: Path) -> None:
    with mistaken("keys tiled") as model:
        write(tmp_path / "tiled.pb", candidate(model, tmp_path, "layers"))
    first, second = (
        subprocess.run(
            [sys.executable, "-c", SAID, tmp_path / "tiled.pb"],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    )
    assert first == second and "tiles" in first
