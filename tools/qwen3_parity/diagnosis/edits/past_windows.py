"""A wider window in decode steps: it reads keys of earlier steps that the reference's cache no longer has."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, opened
from qwen3_parity.diagnosis.edits.sites import TAP
from qwen3_parity.diagnosis.findings.attended import attended
from qwen3_parity.slices.network import Network

_WINDOW = re.compile(r"has (\d+)(?:, without an end,)? for (\d+) \([^)]*window")
"""What an edit says of a window's length."""
_CONTEXT, _MASK = ".context", "attention_mask"
_WHOLE = 1e-4
"""How far the sum of probabilities may be from 1: where it is farther, a sink stands beside the keys."""
GONE = "in later steps it reads keys that the reference's cache no longer has"


def with_past(edit: Edit, network: Network) -> Edit | None:
    """An edit of a window that holds in decode steps, too; None of any other edit, and of a shorter window."""
    window = _WINDOW.match(edit.says)
    if window is None or edit.parts or int(window[1]) <= int(window[2]):
        return None
    names = sorted({opened(name.removeprefix("model.")) for name, _ in network.graph.taps if name.endswith(_CONTEXT)})
    changes: dict[Site, Change] = {Site(TAP, 0, name): _by_window(int(window[1])) for name in names}
    return replace(edit, says=f"{edit.says}; {GONE}", changes={**edit.changes, **changes}) if changes else None


def _by_window(window: int) -> Change:
    def change(call: Call) -> Any:
        taps = call.region.network.graph.taps
        keys = (key for key, value in taps.items() if value == call.value and key[0].endswith(_CONTEXT))
        name, step = next(keys)
        context = _context(call, name.removesuffix(_CONTEXT), step, window) if step else None
        return call.plain() if context is None else context

    return change


def _context(call: Call, module: str, step: int, window: int) -> Array | None:
    """The context of a module with a window of keys; None where the cache has all keys, or a softmax is no plain one.

    Raises `KeyError` where the graph has no taps of what a context is made of.
    """
    here = attended(*(_value(call, module, kind, step) for kind in ("query", "key", "value", "probs")))
    lengths = [_value(call, module, "query", at).shape[2] for at in range(step + 1)]
    total = sum(lengths)
    if here is None or here.keys.shape[2] == total or (np.abs(here.probs.sum(-1) - 1) > _WHOLE).any():
        return None
    keys, values = (
        np.concatenate([_value(call, module, kind, at)[:, :, -length:] for at, length in enumerate(lengths)], 2)
        for kind in ("key", "value")
    )
    scale = here.scale()
    if scale is None or keys.shape[2] != total:
        return None
    slots, leaves = np.arange(total), call.region.network.graph.leaves
    queries = slots[-lengths[-1] :, None]
    visible = ((slots <= queries) & (slots > queries - window))[None]
    mask = call.region.network.slices.leaves[leaves[_MASK]] if _MASK in leaves else np.ones((1, total))
    if mask.ndim == 2 and mask.shape[1] >= total:
        visible = visible & (mask[:, None, :total] != 0)
    scores = scale * (here.queries @ np.repeat(keys, here.group, 1).swapaxes(2, 3))
    scores = np.where(visible[:, None], scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    probs = weights / weights.sum(-1, keepdims=True)
    return np.asarray((probs @ np.repeat(values, here.group, 1)).swapaxes(1, 2))


def _value(call: Call, module: str, kind: str, step: int) -> Array:
    """A part of attention at a step, as it is where the edit is made."""
    number, slices = call.region.network.graph.taps[f"{module}.{kind}", step], call.region.network.slices
    if number in call.env:
        return np.asarray(call.env[number])
    return np.asarray(slices.recorded[number] if number in slices.recorded else slices.value(number))
