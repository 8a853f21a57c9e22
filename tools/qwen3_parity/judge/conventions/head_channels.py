"""Channels of q and k in the order of interleaved RoPE: another order of the same network, where all of it follows it.

Meta's code and llama.cpp's Llama turn neighbouring channels, 0 and 1, 2 and 3; a loader puts the rows of the projection
in an order to fit: channel i and channel i + head_dim / 2 of Hugging Face stand side by side. A score is a sum over the
channels, so it is the same. Nothing is a convention where only a part of it is in that order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb, to_bfloat16
from qwen3_parity.judge.conventions.distances import distance
from qwen3_parity.judge.scope import Scope

_ATTENTION = re.compile(r"(gradient\.)?(\w+\.layers\.\d+\.(?:self_attn|merged_attn))\.(.+)")
_PROJECTED = ("q_proj", "k_proj", "q_norm", "k_norm", "encoder_k_proj", "encoder_k_norm")
_QUERIES, _KEYS = ("q_rope",), ("k_rope", "encoder_k_rope", "cache_keys", "cache_encoder_keys")
_HEADS = (*_PROJECTED, *_QUERIES, *_KEYS)
_BESIDE = ("v_proj", "encoder_v_proj", "cache_values", "cache_encoder_values", "mask")
"""Taps of an attention that do not depend on the order of the channels of q and k."""
_TABLES = ("cos", "sin", "encoder_cos", "encoder_sin")
_WEIGHTS = ("q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias", "q_norm.weight", "k_norm.weight")
_NEAR, _NEARER = 0.3, 0.1
"""How near the golden a tap comes in one order: relative to the golden, and to its distance in the other order."""
_FOLLOWS, _GROWTH = 0.05, 4.0
"""How near the golden what follows must come: so far, and so many times the distance of q and k themselves."""
_INTERLEAVED, _HALVES, _UNCLEAR = "interleaved", "halves", "unclear"


def interleaved_heads(
    actual: Recording, expected: Recording, weights: Mapping[str, Array] | None
) -> tuple[Recording, list[str]]:
    """q and k of whole attentions, from the projection to the rotation and the cache, in the order of interleaved RoPE.

    An attention counts where none of its taps has the order of halves, and where both sides are recorded behind the
    rotation or what follows is near the golden. With `weights`, digests of parameters in that order count as loaded.
    """
    if not expected.case.config.head_dim or expected.case.config.head_dim % 2:
        return actual, []
    attentions: dict[str, list[Tensor]] = {}
    for item in actual:
        if (attention := _attention_of(item.info.name)) and _fits(item, expected):
            attentions.setdefault(attention, []).append(item)
    scope = Scope(expected)
    orders = {name: _order(name, items, actual, expected, scope) for name, items in attentions.items()}
    stacks = _stacks(orders, _INTERLEAVED)
    # Behind another mistake a layer may be too far from the golden to tell: it has the order of its stack.
    clear = stacks - _stacks(orders, _HALVES)
    followed = {name for name, order in orders.items() if order == _UNCLEAR and name.partition(".")[0] in clear}
    chosen = followed | {name for name, order in orders.items() if order == _INTERLEAVED}
    if not stacks:
        return actual, []
    tensors = [
        _in_halves(item, expected) if _is_turned(item, chosen, stacks, expected, scope) else item for item in actual
    ]
    parameters = [_as_stored(parameter, chosen, expected, weights or {}) for parameter in actual.parameters]
    where = f"{', '.join(f'{stack}.layers' for stack in sorted(stacks))}"
    share = "" if len(chosen) == len(orders) else f", in {len(chosen)} of {len(orders)} layers"
    note = (
        "convention recognised: the channels of q and k stand in the order of interleaved RoPE "
        f"(0, d/2, 1, d/2 + 1, …) in {where}{share}, projection and rotation alike; judged in the order of halves"
    )
    return replace(actual, tensors=tensors, parameters=parameters), [note]


def _stacks(orders: Mapping[str, str], order: str) -> set[str]:
    return {name.partition(".")[0] for name, its_order in orders.items() if its_order == order}


def _attention_of(name: str) -> str:
    """The attention whose q or k a tap has, or the gradient of either or of a parameter of it; empty for others."""
    match = _ATTENTION.fullmatch(name)
    return match[2] if match and (match[3] in _HEADS or (match[1] and match[3] in _WEIGHTS)) else ""


def _fits(item: Tensor, expected: Recording) -> bool:
    golden_tap = expected.get(*item.key)
    return (
        golden_tap is not None and item.is_float and golden_tap.is_float and item.array.shape == golden_tap.array.shape
    )


def _order(name: str, items: Sequence[Tensor], actual: Recording, expected: Recording, scope: Scope) -> str:
    """In which order the recorded q and k of an attention are."""
    orders, worst = dict[str, str](), 0.0
    for item in items:
        order, size = _order_of(item, expected, scope)
        if order == _HALVES:
            return _HALVES
        if order == _INTERLEAVED:
            orders[item.info.name.removeprefix(f"{name}.")] = order
            worst = max(worst, size)
    if not orders:
        return _UNCLEAR
    turned = any(tap in orders for tap in _QUERIES) and any(tap in orders for tap in _KEYS)
    limit = _FOLLOWS + _GROWTH * worst
    steps = dict.fromkeys(item.info.step for item in items)
    behind = (_behind(name, step, actual, expected) for step in steps)
    follows = all(distance(tap, expected[tap.key], scope) <= limit for tap in behind if tap is not None)
    return _INTERLEAVED if turned or follows else _HALVES


def _order_of(item: Tensor, expected: Recording, scope: Scope) -> tuple[str, float]:
    """The order of the channels of a tap, and how far from the golden it is in that order."""
    golden_tap = expected[item.key]
    halves = distance(item, golden_tap, scope)
    if halves <= _NEARER * _NEAR:
        same = (
            distance(item, golden_tap, scope, _permuted(golden_tap, expected, back=False)) == 0
        )  # no position turns, all channels are equal
        return (_UNCLEAR if same else _HALVES), halves
    interleaved = distance(item, golden_tap, scope, _permuted(item, expected, back=True))
    if interleaved <= min(_NEAR, _NEARER * halves):
        return _INTERLEAVED, interleaved
    return (_HALVES if halves <= min(_NEAR, _NEARER * interleaved) else _UNCLEAR), halves


def _behind(name: str, step: int, actual: Recording, expected: Recording) -> Tensor | None:
    """The first recorded tap that follows from q and k of an attention in a step: in the layer, or behind it."""
    passed = False
    for item in expected:
        if item.info.step != step:
            continue
        in_attention = item.info.name.startswith(f"{name}.")
        if _attention_of(item.info.name) or (in_attention and item.info.name.removeprefix(f"{name}.") in _BESIDE):
            passed |= in_attention
        elif passed and item.is_float:
            mine = actual.get(*item.key)
            if mine is not None and _fits(mine, expected):
                return mine
    return None


def _permuted(item: Tensor, expected: Recording, *, back: bool) -> Array:
    """The values of a tap with the channels of each head from pairs to halves (`back`), or from halves to pairs."""
    return _channels(item.values(), expected.case.config.head_dim, _axis(item), back=back)


def _axis(item: Tensor) -> int:
    """The axis of channels: the last one, of the gradient of a parameter its first."""
    return 0 if item.info.name.endswith((".weight", ".bias")) else -1


def _channels(values: Array, head_dim: int, axis: int, *, back: bool) -> Array:
    pairs = np.arange(head_dim).reshape(2, -1).T.reshape(-1)
    order = pairs.argsort() if back else pairs
    heads = np.moveaxis(values, axis, -1)
    turned = heads.reshape(*heads.shape[:-1], -1, head_dim)[..., order].reshape(heads.shape)
    return np.ascontiguousarray(np.moveaxis(turned, -1, axis))


def _is_turned(
    item: Tensor, attentions: Iterable[str], stacks: Iterable[str], expected: Recording, scope: Scope
) -> bool:
    if attention := _attention_of(item.info.name):
        return attention in attentions and _fits(item, expected)
    stack, _, name = item.info.name.partition(".")
    table = stack in stacks and name in _TABLES and _fits(item, expected)
    return table and _order_of(item, expected, scope)[0] == _INTERLEAVED


def _in_halves(item: Tensor, expected: Recording) -> Tensor:
    return Tensor(item.info, _channels(item.array, expected.case.config.head_dim, _axis(item), back=True))


def _as_stored(
    parameter: pb.Parameter, attentions: Iterable[str], expected: Recording, weights: Mapping[str, Array]
) -> pb.Parameter:
    """A loaded parameter as the checkpoint's, where its bytes are the checkpoint's in the order of interleaved RoPE."""
    owner = next((name for name in attentions if parameter.name.startswith(f"{name}.")), None)
    if owner is None or parameter.name.removeprefix(f"{owner}.") not in _WEIGHTS or parameter.name not in weights:
        return parameter
    stored = next((golden for golden in expected.parameters if golden.name == parameter.name), None)
    values = _channels(weights[parameter.name], expected.case.config.head_dim, 0, back=False)
    interleaved = stored is not None and parameter.sha256 in _digests(values, parameter.dtype)
    return stored if interleaved and stored is not None and stored.dtype == parameter.dtype else parameter


def _digests(values: Array, dtype: int) -> Iterator[bytes]:
    """The digest of a parameter as it is stored in a float type; none for another type."""
    narrow = np.ascontiguousarray(values, np.float32)
    if dtype == pb.F32:
        yield hashlib.sha256(narrow.tobytes()).digest()
    elif dtype == pb.F16:
        yield hashlib.sha256(narrow.astype(np.float16).tobytes()).digest()
    elif dtype == pb.BF16:
        yield hashlib.sha256(to_bfloat16(narrow).tobytes()).digest()
