"""RoPE by wrong frequencies, as the library of mistakes knows them, and by wrong factors of cos and sin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Change, Edit, Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes import rope_scaling, yarn
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec import RopeScaling, SpecConfig, ops

_SAME = 1e-5
"""How far frequencies may be from those of a config that made them, of their size."""
_GENERAL = 2
"""What a table of any RoPE is less plain than one that a key of the config makes."""
_LENGTH, _ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"


def stretched(region: Region) -> Iterator[Edit]:
    """Every wrong table of frequencies that the config's numbers make, every wrong factor, and both at once."""
    for site, places in region.sites.items():
        values = region.base[places[0]]
        if not site.op.endswith("inv_freq") or places[0] not in region.names or np.ndim(values) != 1:
            continue
        config, longest = of_config(region.network.config, values)
        if config is None:
            continue
        line, angles = line_of(region, places[0]), _angles(region)
        for rule in rope_scaling.rules(config, longest, values):
            rank = rule.rank + (_GENERAL if rule.name.startswith("table.") else 0)
            yield Edit(rule.name, rule.says, rank, {site: _table(rule.change(values, config))}, line)
        head_dim = _count(region.network.config, "head_dim", 0)
        if head_dim > 2 * len(values):
            says = f"divides the exponent by head_dim {head_dim}, not by the {2 * len(values)} channels that turn"
            table = config.rope_theta ** (-2 * np.arange(len(values)) / head_dim)
            yield Edit("table.exponent", says, PLAIN, {site: _table(table)}, line)
        for says, factor in yarn.factors(config, longest) if angles else ():
            by = _times(factor / config.attention_factor)
            yield Edit(yarn.FACTOR, f"{says}, in cos and sin", PLAIN, dict.fromkeys(angles, by), line)
        for (name, says, change, rank), and_says, factor in yarn.unread(config, longest) if angles else ():
            both = dict.fromkeys(angles, _times(factor / config.attention_factor))
            both[site] = _table(change(values, config))
            yield Edit(f"yarn.{name}", f"{says.rstrip(',')}, and {and_says}", rank, both, line)


def of_config(config: Mapping[str, Any], frequencies: Array) -> tuple[SpecConfig | None, int]:
    """What a specification asks of a config that makes these frequencies `[pair]`, and its longest position.

    None where no section of the config makes them.
    """
    longest, heads = _count(config, _LENGTH, 0), _count(config, "num_attention_heads", 1)
    width, head_dim = _count(config, "hidden_size", 1), 2 * len(frequencies)
    for section in _sections(config):
        scaling, theta = _scaling(section, longest), section["rope_theta"]
        try:
            made_of = SpecConfig(width, 1, 1, heads, heads, head_dim, 1, 1e-6, theta, rope_scaling=scaling)
            computed = ops.inv_freq.forward(head_dim, theta, scaling)
        except (ArithmeticError, ValueError):  # a config may say anything
            continue
        if np.allclose(computed, frequencies, rtol=_SAME, atol=0):
            return made_of, longest
    return None, longest


def _count(config: Mapping[str, Any], key: str, default: int) -> int:
    """A count of a config; the default where it has none."""
    value = config.get(key)
    return value if type(value) is int and value > 0 else default


def _sections(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The parts of a config that have a base of RoPE, inner ones first; an older config has its scaling beside it."""
    for value in config.values():
        if isinstance(value, Mapping):
            yield from _sections(value)
    theta = config.get("rope_theta")
    if isinstance(theta, int | float) and theta > 1:
        scaling = config.get("rope_scaling")
        yield {**config, **(scaling if isinstance(scaling, Mapping) else {})}


def _scaling(section: Mapping[str, Any], longest: int) -> RopeScaling | None:
    """The numbers of a stretched RoPE; None for a plain one, and for what cannot be."""
    kind = section.get("rope_type", section.get("type", "default"))
    numbers = {
        name: section[name]
        for name in ("factor", "beta_fast", "beta_slow", "truncate", "low_freq_factor", "high_freq_factor", _ORIGINAL)
        if section.get(name) is not None
    }
    try:
        if kind == "yarn":
            numbers["attention_factor"] = _attention_factor(section)
        return RopeScaling(kind, **{_ORIGINAL: longest, **numbers})
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None


def _attention_factor(section: Mapping[str, Any]) -> float:
    stated, factor = section.get("attention_factor"), section["factor"]
    if stated is not None:
        return float(stated)
    above, below = section.get("mscale") or 0, section.get("mscale_all_dim") or 0
    if not above or not below:
        above, below = 1, 0
    return float((0.1 * above * math.log(factor) + 1) / (0.1 * below * math.log(factor) + 1))


def _angles(region: Region) -> list[Site]:
    """The ops that make cos and sin."""
    nodes = ((site, region.node(places[0])) for site, places in region.sites.items())
    return [site for site, node in nodes if node is not None and short(node.op) in ("cos", "sin")]


def _table(values: Array) -> Change:
    return lambda call: values


def _times(by: float) -> Change:
    return lambda call: np.asarray(call.plain() * by)
