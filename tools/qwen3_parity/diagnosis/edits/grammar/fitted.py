"""A free number: a factor, a clamp, a squash, a power, a temperature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from qwen3_parity.diagnosis.edits.edit import Change, Edit, Free, Site, Written, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, number, of_site, parameter_line, recorded_line, short
from qwen3_parity.mistakes.factors import named_by
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank

_SCALED = frozenset(
    {
        *("linear", "addmm", "matmul", "bmm", "softmax", "div", "embedding", "mean", "sum", "cos", "sin"),
        *("index", "mul", "to_copy", "add", "silu", "gelu", "sigmoid", "layer_norm", "softplus"),
    }
)
_BOUNDED = frozenset({"matmul", "bmm", "mul", "linear", "silu", "add", "div", "softplus"})
_NO_FACTOR = 1e-4
"""How far from 1 a factor is that nobody wrote: it stands for something else, as an epsilon."""
_LARGEST_PARAMETER = 128
"""Numbers of a parameter that a factor of its own is looked for."""


def fitted(region: Region) -> Iterator[Free]:
    """Every op's result by a factor or a bound, every small parameter by a factor or a power."""
    loaded = _loaded_otherwise(region)
    for site, places in reversed(region.sites.items()):
        node, base, line = region.node(places[0]), region.base[places[0]], line_of(region, places[0])
        if not isinstance(base, np.ndarray) or base.dtype.kind != "f":
            continue
        if node is None:
            if not loaded.isdisjoint(region.names.get(place, "") for place in places):
                words = f"has {of_site(site)}, which was not loaded as the checkpoint has it, multiplied by"
                yield _scaled(region, site, words, parameter_line(region, places[0]), PLAIN + 1)
            elif base.size <= _LARGEST_PARAMETER and places[0] in region.names:
                yield _scaled(region, site, f"scales {of_site(site)} by", line)
                if base.size > 1 and bool((base > 0).all()) and not site.op.endswith("inv_freq"):
                    yield _power_of(site, line)
            if places[0] not in region.names:
                line = recorded_line(region, places[0])
                largest = float(np.abs(base[np.isfinite(base)]).max(initial=0))
                yield _scaled(region, site, f"scales {of_site(site)} by", line)
                if largest:
                    bounds = (largest / 2, largest / 4)
                    yield _free([site], f"clamps {of_site(site)} at ±{{}}", _clamp, line, bounds, None)
            continue
        op = short(node.op)
        if op not in _SCALED:
            continue
        yield _scaled(region, site, f"scales the result of {site.module.removeprefix('model.') or op} by", line)
        largest = float(np.abs(base[np.isfinite(base)]).max(initial=0))
        if op in _BOUNDED and largest:
            yield _free([site], f"clamps {op} at ±{{}}", _clamp, line, (largest / 2, largest / 4), None)
            yield _free([site], f"squashes {op}: c tanh(x / c), c = {{}}", _squash, line, (largest, 3 * largest), None)
    yield from _clamped(region)


def _clamped(region: Region) -> Iterator[Free]:
    """Several results of one module by one bound: queries, keys and values."""
    modules = dict[str, list[Site]]()
    for site, places in region.sites.items():
        node = region.network.graph.node(places[0])
        is_recorded = region.node(places[0]) is None and places[0] not in region.names
        if node is not None and not site.file and (is_recorded or short(node.op) == "linear"):
            modules.setdefault(opened(node.module).rpartition(".")[0], []).append(site)
    for sites in modules.values():
        bases = [region.base[region.at(site)[0]] for site in sites]
        if len(sites) > 1 and all(isinstance(base, np.ndarray) and base.dtype.kind == "f" for base in bases):
            largest = max(float(np.abs(base[np.isfinite(base)]).max(initial=0)) for base in bases)
            names = " and ".join(of_site(site._replace(op=site.module or site.op)) for site in sites)
            line, starts = line_of(region, region.at(sites[-1])[0]), (largest / 2, largest / 4)
            yield _free(sites, f"clamps {names} at ±{{}}", _clamp, line, starts, None)


def _power_of(site: Site, line: Written | None) -> Free:
    """A small parameter to a power."""

    def edit(fit: float) -> Edit:
        says = f"takes {of_site(site)} to the power {number(fit)}"
        return Edit("edit.fitted", says, RARE + 1, {site: _power(fit)}, line)

    return Free(edit, (0.8, 1.2), 1.0)


def _loaded_otherwise(region: Region) -> frozenset[str]:
    """The parameters whose digests in the candidate's recording are not the golden's."""
    network = region.network
    stored = {(each.name, each.dtype): each.sha256 for each in network.golden.parameters if each.sha256}
    return frozenset(
        each.name
        for each in network.candidate.parameters
        if each.sha256 and each.sha256 != stored.get((each.name, each.dtype), each.sha256)
    )


def _scaled(region: Region, site: Site, words: str, line: Written | None, rank: Rank = RARE) -> Free:
    def edit(fit: float) -> Edit:
        of_config = named_by(fit, region.network.config)
        says = f"{words} {number(fit)}" + (f", that is {of_config}" if of_config not in ("", number(fit)) else "")
        return Edit("edit.fitted", says, rank if of_config else rank + 1, {site: _times(fit)}, line)

    return Free(edit, (1.3,), 1.0, _NO_FACTOR)


def _free(
    sites: Iterable[Site],
    words: str,
    change: Callable[[float], Change],
    line: Written | None,
    starts: tuple[float, ...],
    plain: float | None,
) -> Free:
    def edit(fit: float) -> Edit:
        return Edit("edit.fitted", words.format(number(fit)), RARE + 1, dict.fromkeys(sites, change(fit)), line)

    return Free(edit, starts, plain)


def _times(fit: float) -> Change:
    return lambda call: call.plain() * fit


def _power(fit: float) -> Change:
    return lambda call: np.asarray(call.operands[0]) ** fit


def _clamp(fit: float) -> Change:
    return lambda call: np.clip(call.plain(), -abs(fit), abs(fit))


def _squash(fit: float) -> Change:
    return lambda call: fit * np.tanh(call.plain() / fit)
