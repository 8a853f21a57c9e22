"""What people call the attention of a decoder that has no encoder: self_attn. Files say merged_attn, as with one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from qwen3_golden import pb

T = TypeVar("T")
_FILED = re.compile(r"(?<=\.)merged_attn(?=\.)")
_SPOKEN = re.compile(r"(?<![^.*!])self_attn(?=\.)")


def spoken(value: T, case: pb.Case) -> T:
    """A text, or a record of texts, with the names of taps as people say them in a case."""
    return value if has_encoder(case) else in_words(value)


def has_encoder(case: pb.Case) -> bool:
    """Whether a decoder's attention merges an encoder's keys with its own."""
    return case.mode == pb.ENCODER_DECODER


def by_cases(value: T, merged: Collection[str]) -> T:
    """As `spoken`, of records that say their `cases`: those of which none is among `merged`, by name."""
    if is_dataclass(value) and not isinstance(value, type) and not set(getattr(value, "cases", merged)) & set(merged):
        return in_words(value)
    changed: T = _each(value, lambda part: by_cases(part, merged))
    return changed


def in_words(value: T) -> T:
    """Every name of a tap in a text, or in a record, a sequence or a mapping of texts, as people say it."""
    if isinstance(value, str):
        return _FILED.sub("self_attn", value)  # type: ignore[return-value]
    changed: T = _each(value, in_words)
    return changed


def as_filed(globs: Iterable[str]) -> tuple[str, ...]:
    """Globs over taps as they are typed, and behind them those of the names that files have for the same taps."""
    typed = tuple(globs)
    return (*typed, *(filed for glob in typed if (filed := _SPOKEN.sub("merged_attn", glob)) != glob))


def _each(value: Any, change: Any) -> Any:
    """A value with its parts changed; the value itself where none of them is another one."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changed = {name: new for name, part in parts.items() if (new := change(part)) is not part}
        return replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        new = [change(part) for part in value]
        same = all(part is before for part, before in zip(new, value, strict=True))
        return value if same else type(value)(*new) if hasattr(value, "_fields") else tuple(new)
    if isinstance(value, list):
        return [change(part) for part in value]
    if isinstance(value, Mapping) and all(isinstance(key, str | int) for key in value):
        return {key: change(part) for key, part in value.items()}
    return value
