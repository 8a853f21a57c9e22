"""A module left out: one of a class, or all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qwen3_parity.diagnosis.edits.edit import Call, Edit, Rank
from qwen3_parity.diagnosis.edits.region import Region, module_site, opened
from qwen3_parity.diagnosis.edits.words import line_of


def modules(region: Region) -> Iterator[Edit]:
    """Every module of the region whose result has the shape of what it reads."""
    for kind in reversed(list(dict.fromkeys(map(opened, region.ends)))):
        site = module_site(kind)
        line = line_of(region.node(region.at(site)[0]))
        says = f"leaves {kind.removeprefix('model.')} out"
        yield Edit("edit.module_left_out", says, Rank.LEFT_OUT, {site: _hands_on}, line)


def _hands_on(call: Call) -> Any:
    begin = next(begins[call.value] for begins in call.region.ends.values() if call.value in begins)
    return np.asarray(call.env[begin])
