"""What a region makes with two edits in it, from what it makes with the first of them alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from qwen3_parity.diagnosis.edits.edit import Change, Edit, Site
from qwen3_parity.diagnosis.edits.sites import everywhere
from qwen3_spec.aten import TRUTH, Numbers


class Computing(Protocol):
    """What a region can do."""

    @property
    def base(self) -> dict[int, Any]: ...
    def at(self, site: Site) -> Sequence[int]: ...
    def downstream(self, values: Iterable[int]) -> list[int]: ...
    def values(self, edit: Edit) -> dict[int, Any] | None: ...
    def compute(
        self,
        order: Sequence[int],
        env: dict[int, Any],
        changes: Mapping[int, tuple[Site, Change]],
        numbers: Numbers,
        *,
        whole: bool,
    ) -> dict[int, Any]: ...


def with_second(region: Computing, parts: Sequence[Edit], held: dict[str, dict[int, Any]]) -> dict[int, Any] | None:
    """Every value, computed anew behind the second edit alone; `held` has what the latest first one gives.

    None where neither is anywhere here. Raises as `compute` does.
    """
    first, second = parts
    changes = _changes(region, second)
    if not changes:
        return region.values(first)
    if first.says not in held:
        held.clear()
        held[first.says] = region.values(first) or dict(region.base)  # it may do nothing here
    order = region.downstream(changes)
    behind = set(order)
    both = {value: change for value, change in _changes(region, first).items() if value in behind} | changes
    return region.compute(order, dict(held[first.says]), both, TRUTH, whole=False)


def _changes(region: Computing, edit: Edit) -> dict[int, tuple[Site, Change]]:
    return {value: (everywhere(site), change) for site, change in edit.changes.items() for value in region.at(site)}
