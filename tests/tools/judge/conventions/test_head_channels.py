"""q and k in the order of interleaved RoPE are the same network, where all of an attention is; in part they are not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read, tensor
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose

ENGINE: dict[str, Any] = {"source": "engine.pb", "digest": b"", "provenance": pb.Provenance(producer="engine")}

HEADS = ("q_proj", "k_proj", "q_norm", "k_norm", "q_rope", "k_rope", "cache_keys")
ENCODER_HEADS = ("encoder_k_proj", "encoder_k_norm", "encoder_k_rope", "cache_encoder_keys")


def golden_of(case: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb")


def in_pairs(values: Array, head_dim: int, axis: int = -1) -> Array:
    """Channels of halves as 0, d/2, 1, d/2 + 1, …"""
    order = np.arange(head_dim).reshape(2, -1).T.ravel()
    heads = np.moveaxis(values, axis, -1)
    turned = heads.reshape(*heads.shape[:-1], -1, head_dim)[..., order].reshape(heads.shape)
    return np.ascontiguousarray(np.moveaxis(turned, -1, axis))


def named(item: Tensor, names: Collection[str]) -> bool:
    return not item.info.name.startswith("input.") and item.info.name.rpartition(".")[2] in names


def recorded(
    golden: Recording,
    turned: Callable[[Tensor], bool],
    taken: Callable[[Tensor], bool] = lambda _: True,
    change: Callable[[Tensor, Array], Array] = lambda _, values: values,
) -> Recording:
    """The golden with some taps in pairs, others left out, some changed."""
    tensors = []
    for item in golden:
        if not (item.info.name.startswith("input.") or taken(item)):
            continue
        values = change(item, item.array)
        if turned(item):
            values = in_pairs(values, golden.case.config.head_dim)
        dtype = {"dtype": pb.BF16} if item.info.dtype == pb.BF16 else {}
        tensors.append(tensor(item.info.name, values, step=item.info.step, op=item.info.op, **dtype))
    run = pb.Run.FromString(golden.run.SerializeToString())
    patterns = {tap.info.name for tap in tensors}
    run.materialised[:] = dict.fromkeys(_pattern(name) for name in patterns if not name.startswith("input."))
    return replace(golden, tensors=tensors, run=run, parameters=(), **ENGINE)


def _pattern(name: str) -> str:
    return ".".join("{layer}" if part.isdecimal() else part for part in name.split("."))


def weights(golden: Recording) -> dict[str, Array]:
    return dict(weights_of(golden, GOLDEN_ROOT / "checkpoints"))


@pytest.mark.parametrize(
    "case",
    [
        *("decoder/plain", "decoder/ragged_decode", "llama/plain", "llama/bfloat16", "encoder/ragged"),
        *("encdec/ragged", "encdec/unrotated", "encdec/bfloat16"),
    ],
)
def test_q_and_k_in_the_order_of_interleaved_rope_are_recognised_and_pass(case: str) -> None:
    golden = golden_of(case)
    engine = recorded(golden, lambda item: named(item, (*HEADS, *ENCODER_HEADS)))
    verdicts = check(golden, engine, weights(golden))
    assert verdicts.word == "parity" and not verdicts.wrong_alone
    assert len(verdicts.notes) == 1 and "interleaved RoPE" in verdicts.notes[0]
    assert verdicts.compared == verdicts.of


def test_gradients_in_that_order_are_recognised_with_their_attention() -> None:
    golden = golden_of("training/causal")
    gradients = ("q_proj", "k_proj", "q_norm", "k_norm")

    def turned(item: Tensor) -> bool:
        parameter = item.info.name.startswith("gradient.") and item.info.name.endswith(".weight")
        return named(item, HEADS) or (parameter and item.info.name.split(".")[-2] in gradients)

    def change(item: Tensor, values: Array) -> Array:  # the rows of a matrix are its channels
        rows = turned(item) and item.info.name.endswith("_proj.weight")
        return in_pairs(values.T, golden.case.config.head_dim).T if rows else values

    engine = recorded(golden, lambda item: turned(item) and not item.info.name.endswith("_proj.weight"), change=change)
    verdicts = check(golden, engine, weights(golden))
    assert verdicts.word == "parity" and verdicts.notes


def test_cos_and_sin_in_that_order_are_recognised_with_it_and_not_without() -> None:
    golden, tables = golden_of("decoder/plain"), ("cos", "sin")
    engine = recorded(golden, lambda item: named(item, (*HEADS, *tables)))
    assert check(golden, engine, weights(golden)).word == "parity"
    assert check(golden, recorded(golden, lambda item: named(item, tables)), weights(golden)).word == "divergence"


def test_diagnose_recognises_it_too_and_blames_nobody() -> None:
    golden = golden_of("llama/plain")
    diagnosis = diagnose(golden, recorded(golden, lambda item: named(item, HEADS)), weights(golden))
    assert diagnosis.verdicts.word == "parity" and not diagnosis.faults and not diagnosis.misplaced
    assert "interleaved RoPE" in diagnosis.verdicts.notes[0]


@pytest.mark.parametrize("taps", [("q_rope", "k_rope"), ("cache_keys",), ("q_rope",), ("q_proj", "q_rope", "k_rope")])
def test_few_taps_are_enough_where_what_follows_is_right(taps: tuple[str, ...]) -> None:
    golden = golden_of("decoder/ragged_decode")

    def taken(item: Tensor) -> bool:
        return named(item, (*taps, "o_proj", "logits", "generated_ids"))

    verdicts = check(golden, recorded(golden, lambda item: named(item, taps), taken), weights(golden))
    assert verdicts.word == "parity" and verdicts.notes


@pytest.mark.parametrize(
    "turned",
    [("q_proj", "k_proj", "q_norm", "k_norm"), ("q_rope", "k_rope", "cache_keys"), ("q_proj", "q_norm", "q_rope")],
    ids=["projections alone", "rotations alone", "queries alone"],
)
def test_where_only_a_part_is_in_that_order_it_stays_a_mistake(turned: tuple[str, ...]) -> None:
    golden = golden_of("decoder/plain")
    engine = recorded(golden, lambda item: named(item, turned))
    verdicts = check(golden, engine, weights(golden))
    assert verdicts.word == "divergence" and not verdicts.notes
    assert {name.rpartition(".")[2] for name in verdicts.wrong_alone} & {"q_proj", "q_rope", "k_rope", "q_norm"}


def test_projections_in_that_order_stay_a_mistake_where_what_follows_is_wrong() -> None:
    golden = golden_of("decoder/plain")
    noise = np.random.Generator(np.random.PCG64(3))

    def change(item: Tensor, values: Array) -> Array:
        return values + noise.standard_normal(values.shape).astype(np.float32) if named(item, ("o_proj",)) else values

    taps = ("q_proj", "k_proj")
    engine = recorded(
        golden, lambda item: named(item, taps), lambda item: named(item, (*taps, "o_proj", "logits")), change
    )
    verdicts = check(golden, engine, weights(golden))
    assert verdicts.word == "divergence" and not verdicts.notes
    assert verdicts.wrong_alone[0] == "decoder.layers.0.merged_attn.q_proj"


def test_wrong_scores_behind_that_order_are_blamed_alone() -> None:
    golden = golden_of("decoder/plain")

    def change(item: Tensor, values: Array) -> Array:
        return values * np.float32(1.5) if item.info.name == "decoder.layers.1.merged_attn.scores" else values

    verdicts = check(golden, recorded(golden, lambda item: named(item, HEADS), change=change), weights(golden))
    wrong = {"decoder.layers.1.merged_attn.scores", "decoder.layers.1.merged_attn.probs"}
    assert verdicts.word == "divergence" and set(verdicts.wrong_alone) == wrong


def test_a_mistake_before_the_attention_does_not_hide_the_order() -> None:
    golden = golden_of("decoder/plain")

    def change(item: Tensor, values: Array) -> Array:
        return values * np.float32(1.5) if item.info.name.endswith("1.mlp.act") else values

    diagnosis = diagnose(golden, recorded(golden, lambda item: named(item, HEADS), change=change), weights(golden))
    blamed = {fault.fault.place for fault in diagnosis.faults} | {tap.place for tap in diagnosis.misplaced}
    assert blamed == {"decoder.layers.{layer}.mlp.act"}


@pytest.mark.parametrize("case", ["decoder/plain", "llama/bfloat16"])
def test_parameters_loaded_in_that_order_are_the_checkpoints(case: str) -> None:
    golden = golden_of(case)
    values, parameters = weights(golden), []
    for parameter in golden.parameters:
        new = pb.Parameter.FromString(parameter.SerializeToString())
        if parameter.name.split(".")[-2] in ("q_proj", "k_proj", "q_norm", "k_norm"):
            new.sha256 = _digest(in_pairs(values[parameter.name], golden.case.config.head_dim, 0), parameter.dtype)
        parameters.append(new)
    engine = recorded(golden, lambda item: named(item, HEADS))
    assert check(golden, replace(engine, parameters=parameters), values).word == "parity"
    straight = recorded(golden, lambda _: False)
    assert check(golden, replace(straight, parameters=parameters), values).word == "divergence"


def _digest(values: Array, dtype: int) -> bytes:
    if dtype == pb.BF16:
        values = (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16)
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).digest()
