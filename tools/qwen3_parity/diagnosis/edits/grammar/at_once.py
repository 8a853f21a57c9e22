"""What is done to several values at once: cos and sin or a cache in few bits, the order of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Change, Edit, Site
from qwen3_parity.diagnosis.edits.grammar.cached import in_cache
from qwen3_parity.diagnosis.edits.grammar.values import NARROW
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, parameter_line, short
from qwen3_parity.mistakes.ranks import PLAIN

_EXPERTS = 3
"""The axes of a parameter of all experts."""
_TEN = 10
"""Up to so many names stand in the order of their numbers."""


def at_once(region: Region) -> Iterator[Edit]:
    """Both tables of RoPE, keys and values, and all parameters of experts."""
    yield from in_cache(region)
    turns: dict[tuple[str, str], list[Site]] = {}
    experts: dict[tuple[str, int], list[Site]] = {}
    for site, places in region.sites.items():
        node, base = region.node(places[0]), region.base[places[0]]
        if node is not None and short(node.op) in ("cos", "sin"):
            turns.setdefault((site.file, node.module), []).append(site)
        elif places[0] in region.names and np.ndim(base) == _EXPERTS and len(base) > _TEN:
            experts.setdefault((site.op.rpartition(".")[0], len(base)), []).append(site)
    for sites in turns.values():
        for name, narrow in NARROW if len(sites) > 1 else ():
            line = line_of(region, region.at(sites[0])[0])
            says = f"rounds cos and sin to {name}"
            yield Edit("edit.rounded", says, PLAIN + 1, dict.fromkeys(sites, _rounded(narrow)), line)
    for (module, count), sites in experts.items():
        order = np.array(sorted(range(count), key=str))
        says = f"has the parameters of {module.removeprefix('model.')} in the order of their names as text: 0, 1, 10 …"
        line = parameter_line(region, region.at(sites[0])[0])
        for words, indices in (("", order), (", the other way around", np.argsort(order))):
            change = _in_order(indices)
            yield Edit("edit.parameter", f"{says}{words}", PLAIN + 1, dict.fromkeys(sites, change), line)


def _rounded(narrow: Callable[[Array], Array]) -> Change:
    return lambda call: narrow(np.asarray(call.plain()))


def _in_order(order: Array) -> Change:
    return lambda call: np.asarray(call.operands[0])[order]
