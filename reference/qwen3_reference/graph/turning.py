"""How a tiny model's heads turn: more than one pair of channels, and where a part turns, the rest of them stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Settings = Mapping[str, Any]

_TURNS = frozenset({"rope_parameters", "rope_scaling"})
SECTIONS = "mrope_section"
"""How many pairs of a head turn by the positions of each of three kinds: time, height, width."""
_PARTS = ("partial_rotary_factor", "rotary_pct")
_FEW, _MORE, _FEWEST = 0.4, 0.6, 4
"""Of two channels that turn, halves and neighbours are the same pair, and every base is the same one."""
_FACTORS = ("short_factor", "long_factor")
_KINDS = ("rope_type", "type")
_ORIGINAL, _LENGTHS = "original_max_position_embeddings", {"longrope": 8, "su": 8, "llama3": 128}
"""The length of the first training by the kind of RoPE: the last step is longer, and llama3 has each of its bands."""


def turns_in_part(said: Settings) -> bool:
    """Whether some channels of a head do not turn."""
    return any(_part(section) < 1 for section in _sections(said))


def turning(said: Settings, head: int, *, by_sections: bool = False) -> dict[str, Any]:
    """The same configuration, and the dicts within it, for heads of this width; of factors of pairs the first ones.

    `by_sections`: pairs turn by three kinds of positions, each a section of them.
    """
    part = min(map(_part, _sections(said)))
    lengths = [_LENGTHS[kind] for section in _sections(said) if (kind := _kind(section)) in _LENGTHS]

    def fitted(section: Settings, turns: bool) -> dict[str, Any]:
        result = dict[str, Any]()
        for key, value in section.items():
            if key in _PARTS and isinstance(value, float):
                result[key] = _fitted(value, head)
            elif key in _FACTORS and isinstance(value, list):
                result[key] = value[: int(head * _fitted(part, head)) // 2]
            elif key == _ORIGINAL and lengths:
                result[key] = lengths[0]
            else:
                result[key] = fitted(value, turns or key in _TURNS) if isinstance(value, Mapping) else value
        if by_sections and turns and _kind(section):
            result[SECTIONS] = _thirds(int(head * _fitted(part, head)) // 2)
        return result

    return fitted(said, turns=False)


def _thirds(pairs: int) -> list[int]:
    """Three parts of some pairs, as even as can be."""
    return [(pairs + more) // 3 for more in (2, 1, 0)]


def _sections(said: Settings) -> Iterator[Settings]:
    """A configuration, and the dicts within it, of which some say how heads turn."""
    yield said
    for section in said.values():
        if isinstance(section, Mapping):
            yield from _sections(section)


def _part(section: Settings) -> float:
    """How much of a head turns."""
    return min((section[key] for key in _PARTS if isinstance(section.get(key), float)), default=1.0)


def _kind(section: Settings) -> str:
    return next((str(section[key]) for key in _KINDS if key in section), "")


def _fitted(part: float, head: int) -> float:
    """A part of so wide a head that is whole pairs, two at least, and not the whole."""
    turned = int(head * part)
    if part >= 1 or (_FEWEST <= turned <= head - 2 and turned % 2 == 0):
        return part
    part = part if part >= _FEW else _MORE
    return max(_FEWEST, min(head - 2, 2 * round(head * part / 2))) / head if head - 2 >= _FEWEST else part
