"""RoPE stretched wrongly, computed by torch in float32, gets the name of its mistake."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from wrong_numbers import evidence, explanations, named

from qwen3_golden import GOLDEN_ROOT, Array, Tensor, pb, read, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_spec.site import Site

STATED, MSCALE = "decoder/yarn_stated", "decoder/yarn_mscale"
Numbers = dict[str, float]
# What the two checkpoints state, and what follows from it.
OF: dict[str, Numbers] = {
    STATED: {"theta": 90000.0, "factor": 8.0, "length": 2048, "fast": 20.0, "slow": 1.5, "whole": 0, "longest": 24576},
    MSCALE: {"theta": 60000.0, "factor": 5.0, "length": 4096, "fast": 32.0, "slow": 1.0, "whole": 1, "longest": 24576},
}
MAGNITUDE = {STATED: 1.07, MSCALE: (0.08 * math.log(5) + 1) / (0.03 * math.log(5) + 1)}
INDEX = torch.arange(5)


def plain(n: Numbers) -> torch.Tensor:
    return 1 / n["theta"] ** (INDEX.float() / 5)


def ends(n: Numbers) -> tuple[float, float]:
    low, high = (5 * math.log(n["length"] / (2 * math.pi * n[b])) / math.log(n["theta"]) for b in ("fast", "slow"))
    return (math.floor(low), math.ceil(high)) if n["whole"] else (low, high)


def ramp(n: Numbers, index: torch.Tensor = INDEX) -> torch.Tensor:
    low, high = ends(n)
    return ((index - low) / (high - low)).clamp(0, 1)


def blend(n: Numbers, divided: torch.Tensor) -> torch.Tensor:
    return plain(n) * (1 - divided) + plain(n) / n["factor"] * divided


def with_(**changes: Callable[[Numbers], float]) -> Callable[[Numbers], torch.Tensor]:
    def frequencies(n: Numbers) -> torch.Tensor:
        changed = n | {name: change(n) for name, change in changes.items()}
        return blend(changed, ramp(changed))

    return frequencies


def turns(n: Numbers) -> torch.Tensor:
    return n["length"] * plain(n) / (2 * math.pi)


FREQUENCIES: dict[str, tuple[str, str, Callable[[Numbers], torch.Tensor]]] = {
    "not scaled": (STATED, "yarn.ignored", plain),
    "not scaled, whole ends": (MSCALE, "yarn.ignored", plain),
    "linear interpolation": (STATED, "yarn.all_divided", lambda n: plain(n) / n["factor"]),
    "betas exchanged": (STATED, "yarn.betas", with_(fast=lambda n: n["slow"], slow=lambda n: n["fast"])),
    "default betas": (STATED, "yarn.betas", with_(fast=lambda n: 32.0, slow=lambda n: 1.0)),
    "ramp turned round": (MSCALE, "yarn.inverted", lambda n: blend(n, 1 - ramp(n))),
    "rounded ends": (STATED, "yarn.truncate", with_(whole=lambda n: 1)),
    "ends not rounded": (MSCALE, "yarn.truncate", with_(whole=lambda n: 0)),
    "factor from the lengths": (STATED, "yarn.factor", with_(factor=lambda n: n["longest"] / n["length"])),
    "twice the factor": (STATED, "yarn.factor", with_(factor=lambda n: 2 * n["factor"])),
    "half the factor": (STATED, "yarn.factor", with_(factor=lambda n: n["factor"] / 2)),
    "multiplied": (STATED, "yarn.factor", with_(factor=lambda n: 1 / n["factor"])),
    "length of now": (STATED, "yarn.original_length", with_(length=lambda n: n["longest"])),
    "length 4096": (STATED, "yarn.original_length", with_(length=lambda n: 4096)),
    "2 pi missing": (STATED, "yarn.ends", lambda n: with_(length=lambda n: n["length"] * 2 * math.pi)(n)),
    "channels": (STATED, "yarn.ends", lambda n: blend(n, ramp(n, 2 * INDEX))),
    "linear in turns": (
        STATED,
        "yarn.ends",
        lambda n: blend(n, ((n["fast"] - turns(n)) / (n["fast"] - n["slow"])).clamp(0, 1)),
    ),
    "another theta, scaled": (STATED, "table.theta", with_(theta=lambda n: 1e6)),
    "an unheard-of theta, scaled": (STATED, "table.theta", with_(theta=lambda n: 54321.0)),
    "bfloat16": (STATED, "table.half_precision", lambda n: blend(n, ramp(n)).bfloat16().float()),
    "of no rule": (STATED, "table.unknown", lambda n: blend(n, ramp(n)) * (1 + 0.1 * INDEX)),
    "as stated": (STATED, "right", lambda n: blend(n, ramp(n))),
    "as stated, mscale": (MSCALE, "right", lambda n: blend(n, ramp(n))),
}
test_wrongly_stretched_frequencies_are_named = named(
    {
        key: (name, case, "decoder.inv_freq", lambda _, case=case, stretched=stretched: stretched(OF[case]).numpy())
        for key, (case, name, stretched) in FREQUENCIES.items()
    }
)


def table(kind: str, factor: float) -> Callable[[Site], Array]:
    def wrong(site: Site) -> Array:
        ids, freq = (torch.tensor(operand).float() for operand in site.inputs)
        angle = torch.cat((ids[..., None] * freq,) * 2, -1)
        return (factor * getattr(angle, kind)()).numpy()

    return wrong


FACTORS: dict[str, tuple[str, float]] = {
    "left out": (STATED, 1.0),
    "left out, mscale": (MSCALE, 1.0),
    "computed, not the stated one": (STATED, 0.1 * math.log(8) + 1),
    "twice": (STATED, 1.07**2),
    "times the computed one": (STATED, 1.07 * (0.1 * math.log(8) + 1)),
    "log10": (STATED, 0.1 * math.log10(8) + 1),
    "mscales not read": (MSCALE, 0.1 * math.log(5) + 1),
    "mscale alone": (MSCALE, 0.08 * math.log(5) + 1),
    "of no rule": (STATED, 1.5432),
    "as stated": (STATED, MAGNITUDE[STATED]),
    "as stated, mscale": (MSCALE, MAGNITUDE[MSCALE]),
}
test_a_wrong_attention_factor_is_named = named(
    {
        f"{key}, {kind}": (
            *("right" if factor == MAGNITUDE[case] else "yarn.attention_factor", case, f"decoder.{kind}"),
            table(kind, factor),
        )
        for key, (case, factor) in FACTORS.items()
        for kind in ("cos", "sin")
    }
)


@pytest.mark.parametrize("power", [2, 1, -2])
def test_an_attention_factor_on_the_scores_is_named(power: int) -> None:
    def wrong(site: Site) -> Array:
        q, k = (torch.tensor(operand) for operand in site.inputs[:2])
        scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT * site.scaling
        return (1.07**power * scores).numpy()

    tap_evidence = evidence(STATED, "decoder.layers.1.merged_attn.scores", wrong)
    best = explanations(tap_evidence)[0]
    assert best.name == "yarn.attention_factor" and "cos and sin" in best.says


def test_every_mistake_says_what_to_do() -> None:
    tap_evidence = evidence(STATED, "decoder.inv_freq", lambda site: plain(OF[STATED]).numpy())
    assert "divide by factor" in explanations(tap_evidence)[0].fix
    tap_evidence = evidence(STATED, "decoder.cos", table("cos", 1.0))
    assert "0.1 ln(factor) + 1" in explanations(tap_evidence)[0].fix


def computed_factor(n: Numbers) -> float:
    return 0.1 * math.log(n["factor"]) + 1


# What an engine makes of the configuration that does not read all of its numbers: frequencies, factor, and the name.
UNREAD: dict[str, tuple[Callable[[Numbers], torch.Tensor], Callable[[Numbers], float], str]] = {
    "truncate": (with_(whole=lambda n: 1), computed_factor, "yarn.truncate"),
    "betas": (with_(fast=lambda n: 32.0, slow=lambda n: 1.0), computed_factor, "yarn.betas"),
    "everything": (plain, lambda n: 1.0, "yarn.ignored"),
    "truncate, no factor": (with_(whole=lambda n: 1), lambda n: 1.0, "yarn.truncate"),
}


def turned_by(frequencies: torch.Tensor, factor: float) -> set[str]:
    """What an engine is told whose rotation is a kernel: it shows no cos, sin and inv_freq."""
    golden = read(GOLDEN_ROOT / "cases" / f"{STATED}.pb")
    taps: list[Tensor] = [item for item in golden if item.info.name.startswith("input.")]
    ids = torch.from_numpy(golden["decoder.position_ids", 0].array.copy())
    angle = (ids[..., None].float() * frequencies.float()).repeat(1, 1, 2)[:, None]
    for letter in "qk":
        norm, rope = (golden[f"decoder.layers.0.merged_attn.{letter}_{op}", 0] for op in ("norm", "rope"))
        x = torch.from_numpy(norm.array.copy()).transpose(1, 2)
        half = torch.cat([-x[..., 5:], x[..., :5]], dim=-1)
        y = x * (angle.cos() * factor) + half * (angle.sin() * factor)
        info = rope.info
        taps += [norm, tensor(info.name, y.numpy(), axes=info.axes, op=info.op, inputs=info.inputs)]
    patterns = [f"decoder.layers.{{layer}}.merged_attn.{letter}_{op}" for letter in "qk" for op in ("norm", "rope")]
    shown = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=patterns)
    diagnosis = diagnose(
        golden, replace(golden, tensors=taps, run=shown), weights_of(golden, GOLDEN_ROOT / "checkpoints")
    )
    return {fault.name for fault in diagnosis.faults}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("unread", UNREAD)
def test_two_numbers_that_a_kernel_does_not_read_are_both_named(unread: str) -> None:
    frequencies, factor, name = UNREAD[unread]
    numbers = OF[STATED]
    assert turned_by(frequencies(numbers), factor(numbers)) == {f"{name}+yarn.attention_factor"}


def test_a_kernel_that_reads_every_number_is_told_nothing() -> None:
    assert turned_by(with_()(OF[STATED]), MAGNITUDE[STATED]) == set()
