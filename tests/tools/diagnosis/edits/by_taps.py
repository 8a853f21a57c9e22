"""A committed golden's own taps, some of them as a mistake makes them: what is said of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from qwen3_golden import GOLDEN_ROOT, Array, Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.explained import Explained

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"


@cache
def golden(case: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb", digests=True)


@cache
def weights(case: str) -> dict[str, Array]:
    return dict(weights_of(golden(case), CHECKPOINTS))


def faults(case: str, changed: Mapping[str, Array], without: str = "") -> list[Explained]:
    """What is said where these taps of step 0 are others; nothing behind them was recorded, nor the tap `without`."""
    whole = golden(case)
    items = [item for item in whole if not item.info.step]
    last = max(place for place, item in enumerate(items) if item.info.name in changed)
    tensors = [
        replace(item, array=np.asarray(changed.get(item.info.name, item.array), item.array.dtype))
        for item in items[: last + 1]
        if item.info.name != without
    ]
    return diagnose(whole, replace(whole, tensors=tensors), weights(case), partial=True).faults


def firsts(case: str, changed: Mapping[str, Array], without: str = "") -> list[str]:
    """The first answer to each wrong place, by name and words."""
    every = faults(case, changed, without)
    return [f"{fault.explanations[0].name}: {fault.explanations[0].says}" if fault.explanations else fault.name
            for fault in every]  # fmt: skip


def faults_of(case: str, changed: Mapping[tuple[str, int], Array], recorded: tuple[str, ...]) -> list[Explained]:
    """What is said where taps of these ends alone were recorded, in every step, some of them changed."""
    whole = golden(case)
    tensors = [
        replace(item, array=np.asarray(changed.get(item.key, item.array), item.array.dtype))
        for item in whole
        if item.info.name.startswith("input.") or item.info.name.endswith(recorded)
    ]
    return diagnose(whole, replace(whole, tensors=tensors), weights(case), partial=True).faults


def first_of(case: str, changed: Mapping[tuple[str, int], Array], recorded: tuple[str, ...]) -> str:
    """The first answer to the first place of these."""
    fault, *_ = faults_of(case, changed, recorded)
    best = (*fault.explanations, *fault.findings)[0]
    return f"{best.name}: {best.says}"
