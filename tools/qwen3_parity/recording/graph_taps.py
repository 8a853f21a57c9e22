"""The names of a golden with a graph: a tap is called after its module's path, and nothing here knows a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from qwen3_golden import ParityError, Recording
from qwen3_parity.judge.match import GIVEN
from qwen3_reference.graph.words import RESULTS

LAYER = "{layer}"
_INSIDE = ("query", "key", "value", "probs", "context")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.\[#])")
_PLACE = re.compile(r"(?P<path>[^#\[\]]+)(#\w+)*(\[[0-9]+\])?")


def general(name: str) -> str:
    """A name with {layer} in the place of its first number: "model.layers.{layer}.self_attn.q_proj"."""
    return _NUMBER.sub(LAYER, name, count=1)


def layer_of(name: str) -> str:
    """The first number of a name, empty for none."""
    match = _NUMBER.search(name)
    return match[0] if match else ""


def called(path: str, call: int = 1, place: int = 0) -> str:
    """What the `place`-th tensor is called that a module gives when it is called for the `call`-th time."""
    return f"{path}{f'#{call}' if call > 1 else ''}{f'[{place}]' if place else ''}"


def names_of(golden: Recording) -> list[str]:
    """The taps of a golden in its order, each once, without what the case is given."""
    return list(dict.fromkeys(t.info.name for t in golden if not t.info.name.startswith(GIVEN)))


def modules_of(names: Iterable[str]) -> list[str]:
    """The paths of the modules that taps are called after; what the whole model gives and its caches have none."""
    paths = (module_of(name) for name in names if name not in RESULTS and not name.startswith("cache."))
    return list(dict.fromkeys(paths))


def module_of(name: str) -> str:
    """The path that a tap is called after, without the number of its call and its place."""
    match = _PLACE.fullmatch(name)
    return match["path"] if match else name


def is_inside_attention(path: str) -> bool:
    """Whether a path that no module has is that of an attention's query, key, value, probabilities or context."""
    return path.rpartition(".")[2] in _INSIDE


def tap_called(name: str, golden: Recording) -> str:
    """The full name of a tap from a short one: "layers.0.q_proj"; raises `ParityError` for none and for several."""
    steps = range(len(golden.case.steps))
    if any((name, step) in golden for step in steps) and not name.startswith(GIVEN):
        return name
    known = names_of(golden)
    fits = meant_by(name, known)
    if len(fits) == 1:
        return fits[0]
    last = name.rpartition(".")[2]
    close = get_close_matches(name, known, n=3, cutoff=0.4) or get_close_matches(last, known, n=3, cutoff=0.1)
    raise ParityError(
        name,
        "more than one tap is called so" if fits else "the golden has no tap of this name",
        expected=f"{', '.join(fits[:3])}{' or another' if len(fits) > 3 else ''}"
        if fits
        else f"the path of a module of the golden; the nearest are {', '.join(close) or 'none'}",
        got=name,
        next_step=f"qwen3-parity show {golden.source} prints every tap",
    )


def meant_by(name: str, known: Iterable[str]) -> list[str]:
    """The names that a short one can mean: its words stand in them in this order, the last one at the end."""
    words = name.split(".")
    return [tap for tap in known if tap.split(".")[-1] == words[-1] and _in_order(words, tap.split("."))]


def _in_order(words: Sequence[str], of: Sequence[str]) -> bool:
    rest = iter(of)
    return all(word in rest for word in words)
