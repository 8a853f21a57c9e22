"""RoPE scaling: which kinds of a configuration are understood, their numbers, and YaRN's frequencies."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

_PLAIN = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
ORIGINAL_LENGTH = "original_max_position_embeddings"
_YARN = (
    "factor",
    ORIGINAL_LENGTH,
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
)


class YarnScaling(NamedTuple):
    """YaRN (Peng et al. 2023): `factor` times the positions of the pretraining, every number resolved.

    Pairs that turn `beta_fast` times or more over the original length keep their frequency, those that turn
    `beta_slow` times or less are divided by `factor`, and a ramp, with `truncate` between whole pairs, goes over from
    the one to the other. cos and sin are multiplied by `attention_factor`.
    """

    factor: float
    original_max_position_embeddings: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True


def resolve_scaling(
    parameters: Mapping[str, Any], field: str = "rope_parameters", max_position_embeddings: int | None = None
) -> YarnScaling | None:
    """The scaling that a `rope_parameters` dictionary states, None for plain RoPE; nothing is dropped in silence.

    As in HF, a `factor` of None is `max_position_embeddings` over the original length, and without `attention_factor`
    it follows from `mscale` and `mscale_all_dim` where both are given, else from the factor. Raises `ValueError`,
    naming `field` and the key, for every other `rope_type`, for keys that its type does not use, for RoPE over a part
    of the head, for yarn without its original length, and for impossible numbers.
    """
    kind = _rope_type(parameters, field)
    known = _PLAIN if kind == "default" else (*_PLAIN, *_YARN)
    part = parameters.get("partial_rotary_factor")
    if part not in (None, 1.0):
        raise ValueError(f"{field}['partial_rotary_factor'] = {part!r} is not supported; expected 1.0")
    if unknown := sorted(set(parameters) - set(known)):
        raise ValueError(f"{field} has keys that RoPE of type {kind!r} does not use: {', '.join(unknown)}; remove them")
    return None if kind == "default" else _yarn(parameters, field, max_position_embeddings)


def _rope_type(parameters: Mapping[str, Any], field: str) -> str:
    stated = {name: parameters[name] for name in ("rope_type", "type") if parameters.get(name) is not None}
    if len(set(stated.values())) > 1:
        raise ValueError(f"{field} has 'rope_type' {stated['rope_type']!r} and 'type' {stated['type']!r}; keep one")
    name, kind = next(iter(stated.items()), ("rope_type", "default"))
    if kind not in ("default", "yarn"):
        raise ValueError(f"{field}[{name!r}] = {kind!r} is not supported; expected 'default' or 'yarn'")
    return str(kind)


def _yarn(parameters: Mapping[str, Any], field: str, max_position_embeddings: int | None) -> YarnScaling:
    length = parameters.get(ORIGINAL_LENGTH)
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ValueError(
            f"{field}[{ORIGINAL_LENGTH!r}] = {length!r} must be a positive integer: it has no honest default"
        )
    if "factor" not in parameters:
        raise ValueError(f"{field}['factor'] is missing: yarn has no honest default")
    if parameters["factor"] is None and max_position_embeddings is not None:
        parameters = {**parameters, "factor": max_position_embeddings / length}
    factor = _number(parameters, "factor", field, least=1.0)
    scaling = YarnScaling(
        factor,
        length,
        _attention_factor(parameters, factor, field),
        _number(parameters, "beta_fast", field) if parameters.get("beta_fast") else 32.0,
        _number(parameters, "beta_slow", field) if parameters.get("beta_slow") else 1.0,
        bool(parameters.get("truncate", True)),
    )
    if scaling.beta_fast < scaling.beta_slow:
        raise ValueError(
            f"{field}['beta_fast'] = {scaling.beta_fast:g} must not be less than beta_slow = {scaling.beta_slow:g}"
        )
    return scaling


def _number(parameters: Mapping[str, Any], name: str, field: str, least: float = 0.0) -> float:
    value = parameters[name]
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < least or value == 0:
        rule = f"a number of at least {least:g}" if least else "a positive number"
        raise ValueError(f"{field}[{name!r}] = {value!r} must be {rule}")
    return float(value)


def _attention_factor(parameters: Mapping[str, Any], factor: float, field: str) -> float:
    if parameters.get("attention_factor") is not None:
        return _number(parameters, "attention_factor", field)
    scales = [_number(parameters, key, field) for key in ("mscale", "mscale_all_dim") if parameters.get(key)]
    if len(scales) == 2:
        return _magnitude(factor, scales[0]) / _magnitude(factor, scales[1])
    return _magnitude(factor, 1.0)


def _magnitude(factor: float, scale: float) -> float:
    """The paper's `0.1 ln(factor) + 1`, its logarithm times `scale`; 1 where nothing is stretched."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def ramp_ends(dim: int, base: float, scaling: YarnScaling) -> tuple[float, float]:
    """The pairs between which frequencies go over from plain to divided, as real numbers within 0 … dim - 1.

    Raises `ValueError` for a base whose powers do not fall.
    """
    if not base > 1:
        raise ValueError(f"rope_theta = {base!r} must be above 1 under yarn, which counts in its powers")

    def pair(turns: float) -> float:
        # theta^(-2i / dim) turns `turns` times over the original length: solved for i.
        length = scaling.original_max_position_embeddings
        return (dim * math.log(length / (turns * 2 * math.pi))) / (2 * math.log(base))

    first, last = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    return max(first, 0), min(last, dim - 1)


def yarn_frequencies(dim: int, base: float, scaling: YarnScaling, device: torch.device | None = None) -> torch.Tensor:
    """YaRN's `[dim / 2]` float32 frequencies, in HF's order of operations."""
    wavelengths = base ** (torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim)
    first, last = ramp_ends(dim, base, scaling)
    width = (last if last != first else last + 0.001) - first  # no ramp is a step
    steps = (torch.arange(dim // 2, dtype=torch.float32, device=device) - first) / width
    unscaled = 1 - steps.clamp(0, 1)
    return 1.0 / (scaling.factor * wavelengths) * (1 - unscaled) + 1.0 / wavelengths * unscaled
