"""RoPE that is stretched wrongly: YaRN's frequencies, its factor on cos and sin, how a configuration states them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from detection.mutants.frequencies import INV_FREQ, TABLES
from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec import qwen3_source, rope
from qwen3_encdec.rope_scaling import YarnScaling, ramp_ends, yarn_frequencies

STATED, MSCALE = ("decoder/yarn_stated",), ("decoder/yarn_mscale",)
BOTH = (*STATED, *MSCALE)
TWIN = ("models/qwen3-8b-yarn",)
UNREAD = words("yarn.ignored yarn.attention_factor")
FACTOR = words("yarn.attention_factor")


def _frequencies(make: Callable[[Any], torch.Tensor]) -> Seed:
    """The frequencies of scaled RoPE are `make(rotary)`."""

    def frequencies(plain: Any, rotary: Any, device: torch.device | None = None) -> Any:
        return plain(rotary, device) if rotary.scaling is None else make(rotary)

    return lambda patch: patch.wrap(rope.Qwen3RotaryEmbedding, "frequencies", frequencies)


def _other(**numbers: Callable[[YarnScaling, Any], Any]) -> Seed:
    """Frequencies by other numbers, each `number(scaling, rotary)`."""

    def make(rotary: Any) -> torch.Tensor:
        changed = {name: number(rotary.scaling, rotary) for name, number in numbers.items()}
        return yarn_frequencies(rotary.dim, rotary.base, rotary.scaling._replace(**changed))

    return _frequencies(make)


def _plain(rotary: Any) -> torch.Tensor:
    return rope.inverse_frequencies(rotary.dim, rotary.base)


def _ramp(ramp: Callable[[torch.Tensor, Any], torch.Tensor]) -> Seed:
    """Pair i is divided by `ramp(i, rotary)` of the factor: 0 = not at all, 1 = wholly."""

    def make(rotary: Any) -> torch.Tensor:
        plain, factor = _plain(rotary), float(rotary.scaling.factor)
        divided = ramp(torch.arange(len(plain), dtype=torch.float32), rotary).clamp(0, 1)
        return plain * (1 - divided) + plain / factor * divided

    return _frequencies(make)


def _between(index: torch.Tensor, first: float, last: float) -> torch.Tensor:
    return ((index - first) / (last - first)).clamp(0, 1)


def _ends(rotary: Any) -> tuple[float, float]:
    return ramp_ends(rotary.dim, rotary.base, rotary.scaling)


def _log10_ends(index: torch.Tensor, rotary: Any) -> torch.Tensor:
    s = rotary.scaling
    turns = [s.original_max_position_embeddings / (2 * math.pi * beta) for beta in (s.beta_fast, s.beta_slow)]
    first, last = (rotary.dim / 2 * math.log10(one) / math.log(rotary.base) for one in turns)
    return _between(index, math.floor(first), math.ceil(last)) if s.truncate else _between(index, first, last)


def _by_turns(index: torch.Tensor, rotary: Any) -> torch.Tensor:
    s: YarnScaling = rotary.scaling
    turns = s.original_max_position_embeddings * _plain(rotary) / (2 * math.pi)
    return (s.beta_fast - turns) / (s.beta_fast - s.beta_slow)


def _factor(cos: Callable[[float], float], sin: Callable[[float], float]) -> Seed:
    """cos and sin multiplied by what each makes of the attention factor."""

    def tables(plain: Any, freq: Any, ids: Any, dtype: Any, factor: float = 1.0) -> Any:
        made = [plain(freq, ids, dtype, change(factor) if factor != 1 else 1.0) for change in (cos, sin)]
        return made[0][0], made[1][1]

    return lambda patch: patch.function(rope.rotary_tables, tables)


def _times(change: Callable[[float], float]) -> Seed:
    return _factor(change, change)


def _from_factor(change: Callable[[YarnScaling], float]) -> Seed:
    """The attention factor is `change(scaling)`."""

    def forward(plain: Any, rotary: Any, *given: Any) -> Any:
        if rotary.scaling is not None:
            rotary.attention_factor = change(rotary.scaling)
        return plain(rotary, *given)

    return lambda patch: patch.wrap(rope.Qwen3RotaryEmbedding, "forward", forward)


def _computed(s: YarnScaling) -> float:
    return 0.1 * math.log(s.factor) + 1


def _on_scores(patch: Patch) -> None:
    for stack in (patch.model.encoder, patch.model.decoder):
        factor = stack.rotary_emb.attention_factor
        patch.setattr(stack.rotary_emb, "attention_factor", 1.0)
        for layer in stack.layers:
            found = getattr(layer, "self_attn", None) or layer.merged_attn
            patch.setattr(found, "scaling", found.scaling * factor**2)


def _read(change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> Seed:
    """The section of config.json is read as `change(section)`; as plain RoPE where that is None."""

    def resolve(plain: Any, section: Mapping[str, Any], *given: Any) -> Any:
        seen = change(section)
        return None if seen is None else plain(seen, *given)

    return lambda patch: patch.wrap(qwen3_source, "resolve_scaling", resolve)


def _without(*keys: str) -> Seed:
    return _read(lambda section: {name: value for name, value in section.items() if name not in keys})


def _mscale_alone(section: Mapping[str, Any]) -> Mapping[str, Any]:
    if "mscale" not in section:
        return section
    rest = {name: value for name, value in section.items() if not name.startswith("mscale")}
    return {**rest, "attention_factor": 0.1 * section["mscale"] * math.log(section["factor"]) + 1}


MUTANTS = (
    Mutant("ROP-09", "frequencies stay plain", _frequencies(_plain), INV_FREQ, words("yarn.ignored"), BOTH + TWIN),
    Mutant("ROP-09/linear", "every frequency divided", _ramp(lambda i, r: i + 1), INV_FREQ,
           words("yarn.all_divided"), BOTH + TWIN),
    Mutant("ROP-09/betas", "beta_fast and beta_slow exchanged",
           _other(beta_fast=lambda s, _: s.beta_slow, beta_slow=lambda s, _: s.beta_fast), INV_FREQ,
           words("yarn.betas"), BOTH),
    Mutant("ROP-09/default_betas", "beta_fast 32 and beta_slow 1 whatever is stated",
           _other(beta_fast=lambda s, _: 32.0, beta_slow=lambda s, _: 1.0), INV_FREQ, words("yarn.betas"), STATED),
    Mutant("ROP-09/inverted", "the ramp turned round", _ramp(lambda i, r: 1 - _between(i, *_ends(r))), INV_FREQ,
           words("yarn.inverted"), MSCALE + TWIN),
    Mutant("ROP-09/whole", "the ramp's ends rounded although truncate is false", _other(truncate=lambda s, _: True),
           INV_FREQ, words("yarn.truncate"), STATED),
    Mutant("ROP-09/fractions", "the ramp's ends not rounded", _other(truncate=lambda s, _: False), INV_FREQ,
           words("yarn.truncate"), MSCALE + TWIN),
    Mutant("ROP-09/ratio", "the factor is the ratio of the lengths, not the stated one",
           _other(factor=lambda s, r: r.max_position_embeddings / s.original_max_position_embeddings), INV_FREQ,
           words("yarn.factor"), BOTH),
    Mutant("ROP-09/length", "the original length is max_position_embeddings",
           _other(original_max_position_embeddings=lambda s, r: r.max_position_embeddings), INV_FREQ,
           words("yarn.original_length"), BOTH),
    Mutant("ROP-09/log10", "log10 of the turns over the natural logarithm of the base", _ramp(_log10_ends), INV_FREQ,
           words("yarn.logarithm"), BOTH),
    Mutant("ROP-09/radians", "turns counted in radians",
           _other(beta_fast=lambda s, _: s.beta_fast / 2 / math.pi, beta_slow=lambda s, _: s.beta_slow / 2 / math.pi),
           INV_FREQ, words("yarn.ends"), STATED),
    Mutant("ROP-09/channels", "the ramp over channels, not pairs", _ramp(lambda i, r: _between(2 * i, *_ends(r))),
           INV_FREQ, words("yarn.ends"), STATED),
    Mutant("ROP-09/turns", "the ramp linear in the turns", _ramp(_by_turns), INV_FREQ, words("yarn.ends"), BOTH),
    Mutant("ROP-10", "the kind is sought under rope_type alone",
           _read(lambda section: section if "rope_type" in section else None), INV_FREQ | TABLES, UNREAD, STATED),
    Mutant("ROP-10/old", "the kind is sought under type alone",
           _read(lambda section: section if "type" in section else None), INV_FREQ | TABLES, UNREAD, MSCALE + TWIN),
    Mutant("ROP-12", "the stated attention factor is computed from the factor", _from_factor(_computed), TABLES,
           FACTOR, STATED),
    Mutant("ROP-12/unread", "attention_factor is not read", _without("attention_factor"), TABLES, FACTOR, STATED),
    Mutant("ROP-13", "the attention factor multiplies the one computed from the factor",
           _from_factor(lambda s: s.attention_factor * _computed(s)), TABLES, FACTOR, BOTH + TWIN),
    Mutant("ROP-13/squared", "the attention factor applied twice", _times(lambda a: a * a), TABLES, FACTOR, BOTH),
    Mutant("ROP-14", "mscale over mscale_all_dim collapses to 1",
           _read(lambda section: {**section, "mscale": 1.0, "mscale_all_dim": 1.0}), TABLES, FACTOR, MSCALE),
    Mutant("ROP-14/all_dim", "mscale_all_dim is not divided by", _read(_mscale_alone), TABLES, FACTOR, MSCALE),
    Mutant("ROP-14/unread", "mscale and mscale_all_dim are not read", _without("mscale", "mscale_all_dim"), TABLES,
           FACTOR, MSCALE),
    Mutant("CFG-09", "a scaling that is not known is dropped in silence",
           _read(lambda section: section if {"linear", "default"} & set(map(str, section.values())) else None),
           INV_FREQ | TABLES, UNREAD, BOTH + TWIN),
    Mutant("own/yarn-no-factor", "no attention factor", _times(lambda a: 1.0), TABLES, FACTOR, BOTH + TWIN),
    Mutant("own/yarn-default-factor", "an attention factor that is not stated is 1",
           _read(lambda section: {"attention_factor": 1.0, **section}), TABLES, FACTOR, TWIN),
    Mutant("own/yarn-default-truncate", "truncate that is not stated is false",
           _read(lambda section: {"truncate": False, **section}), INV_FREQ, words("yarn.truncate"), MSCALE + TWIN),
    Mutant("own/yarn-cos-alone", "the attention factor on cos alone", _factor(lambda a: a, lambda a: 1.0),
           words("encoder.sin decoder.sin decoder.encoder_sin"), FACTOR, BOTH + TWIN),
    Mutant("own/yarn-on-scores", "the attention factor on the scores", _on_scores,
           TABLES | attention("scores"), FACTOR, BOTH),
    Mutant("own/yarn-log10", "the attention factor by log10",
           _from_factor(lambda s: 0.1 * math.log10(s.factor) + 1), TABLES, FACTOR, BOTH),
)  # fmt: skip
