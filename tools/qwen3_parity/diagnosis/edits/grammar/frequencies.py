"""Frequencies of RoPE: another base, a scaling that belongs to other layers, none, or one that changes the base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Free, Site, Written
from qwen3_parity.diagnosis.edits.grammar.constants import config_numbers
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, number, of_site
from qwen3_parity.mistakes.ranks import PLAIN, RARE

_USUAL = (1e4, 1e5, 5e5, 1e6, 5e6, 1e7)
"""Bases that models have."""
_SAME = 1e-4
"""How far a base that is read off the frequencies may be from the config's, of its size."""
_EXPONENTS: Mapping[float, str] = {0.5: ", or half of the exponents", 2.0: ", or twice the exponents"}
_WHOLE = 1e-4
"""How far a factor of the exponents may be from a whole number that is said."""


def frequencies(region: Region) -> Iterator[Edit | Free]:
    """Every parameter of frequencies by other bases and factors: those of the config and usual ones, then any."""
    for site, places in region.sites.items():
        values = region.base[places[0]]
        if not site.op.endswith("inv_freq") or places[0] not in region.names or not _decreasing(values):
            continue
        line, config, theta = line_of(region, places[0]), config_numbers(region.network.config), _theta(values)
        factors = {value: key for key, value in config.items() if key.rpartition(".")[2] == "factor"}
        said = _bases(config, factors)
        of = next((words for base, words in said.items() if abs(base - theta) < _SAME * theta), None)
        if of is not None or not said:  # else they are stretched: YaRN's are no powers of a base
            yield from _of_other_bases(site, values, theta, said, of or "", line)
        for factor, key in factors.items():
            for by, words in ((1 / factor, "divides"), (factor, "multiplies")):
                says = f"{words} {of_site(site)} by {number(factor)} ({key})"
                yield Edit("edit.fitted", says, PLAIN + 1, {site: _times(by)}, line)
            for by in (2.0, 0.5) if abs(values[0] * factor - 1) < _SAME else ():
                says = f"divides {of_site(site)} by {number(by * factor)} for {number(factor)} ({key})"
                yield Edit("edit.constant", says, PLAIN + 1, {site: _times(1 / by)}, line)
        yield _power_of(site, theta, line)


def _bases(config: Mapping[str, float], factors: Mapping[float, str]) -> dict[float, str]:
    """The config's bases, and those times its factors, with their keys in words."""
    bases = {value: key for key, value in config.items() if key.rpartition(".")[2].endswith("theta")}
    times = {base * factor: f" ({bases[base]} times {factors[factor]})" for base in bases for factor in factors}
    return times | {base: f" ({key})" for base, key in bases.items()}


def _of_other_bases(
    site: Site, values: Array, theta: float, said: Mapping[float, str], of: str, line: Written | None
) -> Iterator[Edit]:
    for base in dict.fromkeys((*said, *_USUAL)):
        if abs(base - theta) < _SAME * theta:
            continue
        fit = float(np.log(base) / np.log(theta))
        says = f"has rope_theta {base:.7g}{said.get(base, '')} for {theta:.5g}{of}"
        yield Edit("edit.constant", says, PLAIN, {site: _power(fit)}, line)
        if abs(values[0] - 1) > _SAME:
            says += f", and frequencies from 1, not from {number(float(values[0]))}"
            yield Edit("edit.constant", says, PLAIN + 1, {site: _power(fit, first=1.0)}, line)


def _decreasing(values: Array) -> bool:
    """Whether frequencies decrease; those of channels that are not turned are 0."""
    if np.ndim(values) != 1 or not len(values) or values[0] == 0:
        return False
    turned = values[values != 0]
    return len(turned) > 1 and bool((np.diff(turned) < 0).all() and turned[-1] > 0)


def _theta(values: Array) -> float:
    """The base that the first two frequencies show."""
    return float((values[0] / values[1]) ** len(values))


def _power_of(site: Site, theta: float, line: Written | None) -> Free:
    def edit(fit: float) -> Edit:
        times = f", or {round(fit)} times the exponents" if fit > 1.5 and abs(fit - round(fit)) < _WHOLE else ""
        says = f"has rope_theta {theta**fit:.5g} for {theta:.5g}{_EXPONENTS.get(fit, times)}"
        return Edit("edit.fitted", says, RARE + 1, {site: _power(fit)}, line)

    return Free(edit, (0.8, 1.2), 1.0)


def _power(fit: float, first: float | None = None) -> Change:
    """To another power, of frequencies that begin where they do, or at another one."""

    def change(call: Call) -> Array:
        values = np.asarray(call.operands[0])
        return np.asarray((values[0] if first is None else first) * (values / values[0]) ** fit)

    return change


def _times(by: float) -> Change:
    return lambda call: np.asarray(call.operands[0]) * by
