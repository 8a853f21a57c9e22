"""What a region makes with two edits in it, from what it makes with the first of them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qwen3_parity.diagnosis.edits.edit import Around, Change, Edit, Site
from qwen3_parity.diagnosis.edits.sites import everywhere
from qwen3_spec.aten import TRUTH

Held = list[tuple[Edit, dict[int, Any]]]
"""The latest first edit, and every value with it: many are tried beside the same."""


def with_second(region: Around, parts: Sequence[Edit], held: Held) -> dict[int, Any] | None:
    """Every value, computed anew behind the second edit alone, beside the first that is `held`.

    None where neither is anywhere here. Raises as `compute` does.
    """
    first, second = parts
    changes = changes_of(region, second)
    if not changes:
        return region.values(first)
    if not held or held[0][0] is not first:  # another edit may say the same of another line
        held[:] = [(first, region.values(first) or dict(region.base))]  # it may do nothing here
    order = region.downstream(changes)
    behind = set(order)
    both = {value: change for value, change in changes_of(region, first).items() if value in behind} | changes
    return region.compute(order, dict(held[0][1]), both, TRUTH, whole=False)


def changes_of(region: Around, edit: Edit) -> dict[int, tuple[Site, Change]]:
    """An edit's changes by the values that they are of here."""
    return {value: (everywhere(site), change) for site, change in edit.changes.items() for value in region.at(site)}
