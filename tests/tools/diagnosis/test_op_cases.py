"""A diagnosis of an op's own case names the mistake, as it does in a network: ports begin with these cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, read, tensor, to_bfloat16, write
from qwen3_parity.blame.op_case import network_of
from qwen3_parity.cli import main
from qwen3_parity.diagnosis import diagnose
from qwen3_spec import ops

Tensors = Mapping[str, Array]
CASES = sorted(path.stem for path in (GOLDEN_ROOT / "cases" / "op").glob("*.pb"))


def golden_of(case: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / "op" / f"{case}.pb")


def with_outputs(golden: Recording, outputs: Tensors) -> Recording:
    def replaced(item):
        name = item.info.name.removeprefix("output.")
        if name not in outputs or name == item.info.name:
            return item
        array = np.ascontiguousarray(outputs[name])
        kind = item.info.dtype
        array = to_bfloat16(array.astype(np.float32)) if kind == pb.BF16 else array.astype(item.array.dtype)
        return tensor(item.info.name, array, dtype=kind, axes=item.info.axes, op=item.info.op)

    return replace(golden, tensors=[replaced(item) for item in golden])


def tensors_of(golden: Recording) -> Tensors:
    """By the last part of the name, inputs and parameters alone; floats in float64."""
    return {
        item.info.name.partition(".")[2]: item.values().astype(np.float64) if item.is_float else item.values()
        for item in golden
        if not item.info.name.startswith("output.")
    }


def softmax(scores: Array, axis: int = -1) -> Array:
    y = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return y / y.sum(axis=axis, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def normed(x: Array, eps: float = 1e-6, axis: int | tuple[int, ...] = -1) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=axis, keepdims=True) + eps)


def interleaved(x: Array, cos: Array, sin: Array) -> Array:
    """`[batch, heads, query, head_dim]`, adjacent channels as pairs."""
    half = x.shape[-1] // 2
    cos, sin = (np.repeat(table[:, None, :, :half], 2, axis=-1) for table in (cos, sin))
    turned = np.empty_like(x)
    turned[..., ::2], turned[..., 1::2] = -x[..., 1::2], x[..., ::2]
    return x * cos + turned * sin


def tiled(x: Array) -> Array:
    return np.tile(x, (1, 3, 1, 1))


SEEDED: list[tuple[str, str, Callable[[Tensors], Tensors]]] = [
    ("rms_norm", "norm.eps_outside_root", lambda t: {
        "y": t["x"] / (np.sqrt(np.mean(t["x"] ** 2, axis=-1, keepdims=True)) + 1e-6) * t["weight"]}),
    ("rms_norm_large_eps", "norm.eps", lambda t: {"y": normed(t["x"]) * t["weight"]}),
    ("rms_norm_bfloat16", "norm.one_plus_weight", lambda t: {"y": normed(t["x"]) * (1 + t["weight"])}),
    ("rms_norm_float16", "norm.one_plus_weight", lambda t: {"y": normed(t["x"]) * (1 + t["weight"])}),
    ("head_norm", "norm.all_heads", lambda t: {"y": normed(t["x"], axis=(-2, -1)) * t["weight"]}),
    ("linear", "weight.scaled", lambda t: {"y": 2 * t["x"] @ t["weight"].T}),
    ("linear_bias", "weight.no_bias", lambda t: {"y": t["x"] @ t["weight"].T}),
    ("embedding", "embedding.other_row", lambda t: {"y": t["weight"][np.maximum(t["ids"] - 1, 0)]}),
    ("inv_freq_10", "table.theta", lambda t: {"inv_freq": 1e4 ** (-np.arange(0, 10, 2) / 10)}),
    ("inv_freq_yarn", "yarn.ignored", lambda t: {"inv_freq": 1e6 ** (-np.arange(0, 128, 2) / 128)}),
    ("rope_table", "positions.offset", lambda t: {
        name: np.tile(turn((t["position_ids"][..., None] + 1) * t["inv_freq"]), 2)
        for name, turn in (("cos", np.cos), ("sin", np.sin))}),
    ("rope_table_yarn", "yarn.attention_factor", lambda t: {
        name: np.tile(turn(t["position_ids"][..., None] * t["inv_freq"]), 2)
        for name, turn in (("cos", np.cos), ("sin", np.sin))}),
    ("rope", "rope.interleaved", lambda t: {name: interleaved(t[name], t["cos"], t["sin"]) for name in ("q", "k")}),
    ("repeat_kv", "context.kv_heads_tiled", lambda t: {"y": tiled(t["x"])}),
    ("scores", "scores.scale", lambda t: {"scores": t["q"] @ np.repeat(t["k"], 3, axis=1).swapaxes(2, 3)}),
    ("scores", "scores.kv_heads_tiled", lambda t: {"scores": t["q"] @ tiled(t["k"]).swapaxes(2, 3) / np.sqrt(10)}),
    ("softmax_large", "softmax.axis", lambda t: {
        "probs": softmax(np.where(t["mask"][:, None], t["scores"], -1e9), axis=2)}),
    ("softmax_hidden_rows", "softmax.no_mask", lambda t: {"probs": softmax(t["scores"])}),
    ("softmax_many_keys", "softmax.mask_multiplied", lambda t: {"probs": softmax(t["scores"] * t["mask"][:, None])}),
    ("context", "context.kv_heads_tiled", lambda t: {"context": (t["probs"] @ tiled(t["v"])).swapaxes(1, 2)}),
    ("context", "context.head_layout", lambda t: {
        "context": (t["probs"] @ np.repeat(t["v"], 3, axis=1)).reshape(2, 5, 6, 10)}),
    ("swiglu", "mlp.gate_up_exchanged", lambda t: {"act": t["up"] * sigmoid(t["up"]) * t["gate"]}),
    ("mask_bidirectional_window_3", "mask.window_off_by_one", lambda t: {
        "mask": ops.mask.encoder_mask(t["encoder_attention_mask"], 4)}),
    ("mask_causal", "mask.padding_ignored", lambda t: {
        "mask": ops.mask.merged(np.ones_like(t["decoder_attention_mask"]), None, 9, None)}),
    ("mask_chunk_window_2", "mask.window_missing", lambda t: {
        "mask": ops.mask.merged(t["decoder_attention_mask"], None, 3, None)}),
    ("mask_merged_chunk_window_3", "mask.window_off_by_one", lambda t: {
        "mask": ops.mask.merged(t["decoder_attention_mask"], t["encoder_attention_mask"], 3, 2)}),
    ("next_token_probs_top_k", "sampling.no_top_k", lambda t: {"probs": softmax(t["logits"])}),
]  # fmt: skip


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("case", "name", "wrong"), SEEDED, ids=[f"{case}-{name}" for case, name, _ in SEEDED])
def test_a_mistake_in_an_op_alone_is_named(case, name, wrong):
    golden = golden_of(case)
    diagnosis = diagnose(golden, with_outputs(golden, wrong(tensors_of(golden))), {})
    assert [fault.name for fault in diagnosis.faults] == [name] * len(diagnosis.faults) != []


def test_every_op_of_the_op_tier_has_a_seeded_mistake():
    assert {golden_of(case).case.op for case in CASES} == {golden_of(case).case.op for case, _, _ in SEEDED}


@pytest.mark.parametrize("case", CASES)
def test_the_reference_alone_has_no_fault_and_every_output_is_judged(case):
    golden = golden_of(case)
    diagnosis = diagnose(golden, golden, {})
    outputs = [item.info.name for item in golden if item.info.name.startswith("output.")]
    assert ([verdict.name for verdict in diagnosis.alone if not verdict.reason], list(diagnosis.faults)) == (
        outputs,
        [],
    )


def test_what_is_said_has_the_names_of_the_case():
    golden = golden_of("swiglu")
    t = tensors_of(golden)
    (fault,) = diagnose(golden, with_outputs(golden, {"act": t["up"] * sigmoid(t["up"]) * t["gate"]}), {}).faults
    says = {explanation.name: explanation.says for explanation in fault.explanations}
    assert (fault.fault.place, says["wiring.exchanged"]) == (
        "output.act",
        "has input.gate and input.up exchanged",
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_prints_the_mistake_and_how_to_mend_it(tmp_path, as_json):
    golden = golden_of("mask_bidirectional_window_3")
    wrong = {"mask": ops.mask.encoder_mask(tensors_of(golden)["encoder_attention_mask"], 4)}
    write(tmp_path / "mine.pb", with_outputs(golden, wrong))
    result = CliRunner().invoke(main, ["diagnose", str(tmp_path / "mine.pb"), *["--json"] * as_json])
    assert result.exit_code == 1
    if as_json:
        (fault,) = json.loads(result.stdout)["faults"]
        assert (fault["place"], fault["explanations"][0]["name"]) == ("output.mask", "mask.window_off_by_one")
    else:
        assert "mask.window_off_by_one: has a window of one more" in result.stdout
        assert "fix: 0 <= query - key < window" in result.stdout


def test_an_output_of_another_shape_is_the_verdicts_own_business():
    golden = golden_of("context")
    flat = tensors_of(golden)["probs"][..., 0]
    diagnosis = diagnose(golden, with_outputs(golden, {"context": flat}), {})
    assert (diagnosis.verdicts.exit_code, list(diagnosis.alone)) == (1, [])


@pytest.mark.parametrize("case", ["rms_norm", "inv_freq_yarn", "mask_causal", "next_token_probs_all", "scores"])
def test_a_golden_without_its_attributes_is_judged_as_a_whole_alone(case):
    golden = golden_of(case)
    bare = pb.Case.FromString(golden.case.SerializeToString())
    del bare.attributes[:]
    assert network_of(replace(golden, case=bare), golden) is None


def test_a_golden_without_its_parameters_is_judged_as_a_whole_alone():
    golden = golden_of("rms_norm")
    bare = replace(golden, tensors=[item for item in golden if item.info.name != "parameter.weight"])
    assert network_of(bare, bare) is None


def test_a_golden_whose_sizes_disagree_is_judged_as_a_whole_alone():
    golden = golden_of("rms_norm")
    short = tensor("parameter.weight", np.ascontiguousarray(golden["parameter.weight", 0].array[:-1]))
    odd = replace(golden, tensors=[short if item.info.name == "parameter.weight" else item for item in golden])
    assert network_of(golden, golden) is not None and network_of(odd, odd) is None
