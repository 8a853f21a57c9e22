"""A wider window in decode steps: it reads keys of earlier steps that the reference's cache no longer has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, Written, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import TAP
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.diagnosis.findings.attended import attended
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import Network

_WINDOW = re.compile(r"has (\d+)(?:, without an end,)? for (\d+) \([^)]*window")
"""What an edit says of a window's length."""
_LAYER_TYPE = "edit.layer_type"
_CONTEXT, _MASK = ".context", "attention_mask"
GONE = "in later steps it reads keys that the reference's cache no longer has"


def with_past(edit: Edit, network: Network) -> Edit | None:
    """An edit of a window that holds in decode steps, too; None of any other edit, and of a shorter window."""
    window = _WINDOW.match(edit.says)
    longer = window is not None and int(window[1]) > int(window[2])
    if edit.parts or not (longer or edit.name == _LAYER_TYPE):
        return None
    change = _by_window(None if window is None else int(window[1]))
    changes: dict[Site, Change] = {site: change for _, site in _contexts(network)}
    return replace(edit, says=f"{edit.says}; {GONE}", changes={**edit.changes, **changes}) if changes else None


def wider(region: Region) -> Iterator[Edit]:
    """Every context of the region in decode steps with all keys so far, and with one key more than its window has."""
    for name, site in _contexts(region.network):
        for value in region.at(site)[-1:]:
            for words, window in (("reads every key so far", None), ("reads one key more than its window has", 0)):
                says = f"{words} in {name.removesuffix(_CONTEXT)}; {GONE}"
                yield Edit("edit.mask", says, PLAIN + 1, {site: _by_window(window)}, _line(region, value))


def _line(region: Region, value: int) -> Written | None:
    """The line that hides keys ahead of a context's softmax, or of what the region has of it."""
    node = region.node(value)
    while node is not None and not short(node.op).endswith("softmax"):
        value = next((read for read in node.reads if region.node(read) is not None), value)
        node = None if region.node(value) is node else region.node(value)
    return line_of(region, value if node is None or region.node(node.reads[0]) is None else node.reads[0])


def _contexts(network: Network) -> list[tuple[str, Site]]:
    names = {opened(name.removeprefix("model.")) for name, _ in network.graph.taps if name.endswith(_CONTEXT)}
    return [(name, Site(TAP, 0, name)) for name in sorted(names)]


def _by_window(window: int | None) -> Change:
    """A window of so many keys, 0 of one more than there is, None of all."""

    def change(call: Call) -> Any:
        taps = call.region.network.graph.taps
        keys = (key for key, value in taps.items() if value == call.value and key[0].endswith(_CONTEXT))
        name, step = next(keys)
        context = _context(call, name.removesuffix(_CONTEXT), step, window) if step else None
        return call.plain() if context is None else context

    return change


def _context(call: Call, module: str, step: int, window: int | None) -> Array | None:
    """The context of a module with a window of keys, beside whatever else its softmax sums; None where the cache has
    all keys, or the probabilities are made otherwise.

    Raises `KeyError` where the graph has no taps of what a context is made of.
    """
    here = attended(*(_value(call, module, kind, step) for kind in ("query", "key", "value", "probs")))
    lengths = [_value(call, module, "query", at).shape[2] for at in range(step + 1)]
    total = sum(lengths)
    scale = None if here is None or here.keys.shape[2] == total else here.scale()
    if here is None or scale is None:
        return None
    keys, values = (
        np.concatenate([_value(call, module, kind, at)[:, :, -length:] for at, length in enumerate(lengths)], 2)
        for kind in ("key", "value")
    )
    if keys.shape[2] != total:
        return None
    slots, leaves = np.arange(total), call.region.network.graph.leaves
    queries = slots[-lengths[-1] :, None]
    window = here.keys.shape[2] + 1 if window == 0 else total if window is None else window
    visible = ((slots <= queries) & (slots > queries - window))[None]
    mask = call.region.network.slices.leaves[leaves[_MASK]] if _MASK in leaves else np.ones((1, total))
    if mask.ndim == 2 and mask.shape[1] >= total:
        visible = visible & (mask[:, None, :total] != 0)
    logs = [scale * (here.queries @ np.repeat(x, here.group, 1).swapaxes(2, 3)) for x in (here.keys, keys)]
    most = np.maximum(*(each.max(-1, keepdims=True) for each in logs))
    before, weights = (np.exp(each - most) for each in logs)
    before, weights = np.where(here.probs > 0, before, 0), np.where(visible[:, None], weights, 0)
    largest = here.probs.argmax(-1, keepdims=True)
    total_before = np.take_along_axis(before, largest, -1) / np.take_along_axis(here.probs, largest, -1)
    beside = np.maximum(total_before - before.sum(-1, keepdims=True), 0)  # a sink
    probs = weights / (weights.sum(-1, keepdims=True) + beside)
    return np.asarray((probs @ np.repeat(values, here.group, 1)).swapaxes(1, 2))


def _value(call: Call, module: str, kind: str, step: int) -> Array:
    """A part of attention at a step, as it is where the edit is made."""
    number, slices = call.region.network.graph.taps[f"{module}.{kind}", step], call.region.network.slices
    if number in call.env:
        return np.asarray(call.env[number])
    return np.asarray(slices.recorded[number] if number in slices.recorded else slices.value(number))
