"""Parameters that were not loaded as they are stored: which tensor of the checkpoint stands in their place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, Recording, pattern_of
from qwen3_parity.diagnosis.findings.structure.weights import UNKNOWN, structure_of
from qwen3_parity.mistakes.as_loaded import LOAD
from qwen3_parity.mistakes.parameters import held_rows

_MOST = 8
"""Kinds of parameters whose numbers are looked at."""
FIX = LOAD
"""What to do about a parameter that was not loaded as it is stored."""
FOREIGN = "holds values of no tensor of the checkpoint"
"""How what is said begins of a parameter that was changed, rounded for instance, and not mistaken for another."""


@dataclass(frozen=True)
class ParameterFault:
    """A parameter whose bytes as loaded are not the checkpoint's. `says` tells what they are, where that was found."""

    name: str
    says: str


def parameter_faults(candidate: Recording, golden: Recording, weights: Mapping[str, Array]) -> list[ParameterFault]:
    """Every parameter of the candidate with another digest than the golden's; none where either records no digests.

    Where its recording has the numbers, what they are is said of the first of each kind.
    """
    goldens = {parameter.name: parameter for parameter in golden.parameters if parameter.sha256}
    owners = {parameter.sha256: parameter.name for parameter in reversed(golden.parameters) if parameter.sha256}
    faults, kinds = list[ParameterFault](), set[str]()
    for parameter in candidate.parameters:
        expected = goldens.get(parameter.name)
        if (
            expected is None
            or not parameter.sha256
            or parameter.dtype != expected.dtype
            or parameter.sha256 == expected.sha256
        ):
            continue
        owner = owners.get(parameter.sha256)
        if owner is not None:
            says = f"holds the values of {owner}"
        elif _digest(weights, parameter.name, transposed=True) == parameter.sha256:
            says = "is transposed"
        else:
            says = FOREIGN
            kind, rows = pattern_of(parameter.name), held_rows(parameter.name, candidate)
            if rows is not None and parameter.name in weights and kind not in kinds and len(kinds) < _MOST:
                kinds.add(kind)  # of a kind that was loaded otherwise in every layer one says what it is
                structure = structure_of(parameter.name, rows, weights)
                says += "" if structure is None or structure.name == UNKNOWN else f": {structure.says}"
        faults.append(ParameterFault(parameter.name, says))
    return faults


def _digest(weights: Mapping[str, Array], name: str, *, transposed: bool) -> bytes:
    """SHA-256 of a float32 matrix as it would be stored; nothing for other tensors."""
    matrix = weights.get(name)
    if matrix is None or matrix.ndim != 2 or matrix.dtype != np.float32:
        return b""
    stored = np.ascontiguousarray(matrix.T if transposed else matrix)
    return hashlib.sha256(stored.tobytes()).digest()
