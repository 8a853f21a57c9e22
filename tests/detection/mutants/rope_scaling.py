"""RoPE that is stretched wrongly: how a configuration states YaRN, and where its factor goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from detection.mutants.frequencies import INV_FREQ, TABLES
from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec import qwen3_source

STATED, MSCALE = ("decoder/yarn_stated",), ("decoder/yarn_mscale",)
BOTH = (*STATED, *MSCALE)
TWIN = ("models/qwen3-8b-yarn",)
UNREAD = words("yarn.ignored yarn.attention_factor")
FACTOR = words("yarn.attention_factor")


def _on_scores(patch: Patch) -> None:
    for stack in (patch.model.encoder, patch.model.decoder):
        factor = stack.rotary_emb.attention_factor
        patch.setattr(stack.rotary_emb, "attention_factor", 1.0)
        for layer in stack.layers:
            module = getattr(layer, "self_attn", None) or layer.merged_attn
            patch.setattr(module, "scaling", module.scaling * factor**2)


def _read(change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> Seed:
    """The section of config.json is read as `change(section)`; as plain RoPE where that is None."""

    def resolve(plain: Any, section: Mapping[str, Any], *arguments: Any) -> Any:
        changed = change(section)
        return None if changed is None else plain(changed, *arguments)

    return lambda patch: patch.wrap(qwen3_source, "resolve_scaling", resolve)


def _without(*keys: str) -> Seed:
    return _read(lambda section: {name: value for name, value in section.items() if name not in keys})


def _mscale_alone(section: Mapping[str, Any]) -> Mapping[str, Any]:
    if "mscale" not in section:
        return section
    rest = {name: value for name, value in section.items() if not name.startswith("mscale")}
    return {**rest, "attention_factor": 0.1 * section["mscale"] * math.log(section["factor"]) + 1}


MUTANTS = (
    Mutant("ROP-10", "the kind is sought under rope_type alone",
           _read(lambda section: section if "rope_type" in section else None), INV_FREQ | TABLES, UNREAD, STATED),
    Mutant("ROP-10/old", "the kind is sought under type alone",
           _read(lambda section: section if "type" in section else None), INV_FREQ | TABLES, UNREAD, MSCALE + TWIN),
    Mutant("ROP-12/unread", "attention_factor is not read", _without("attention_factor"), TABLES, FACTOR, STATED),
    Mutant("ROP-14", "mscale over mscale_all_dim collapses to 1",
           _read(lambda section: {**section, "mscale": 1.0, "mscale_all_dim": 1.0}), TABLES, FACTOR, MSCALE),
    Mutant("ROP-14/all_dim", "mscale_all_dim is not divided by", _read(_mscale_alone), TABLES, FACTOR, MSCALE),
    Mutant("ROP-14/unread", "mscale and mscale_all_dim are not read", _without("mscale", "mscale_all_dim"), TABLES,
           FACTOR, MSCALE),
    Mutant("CFG-09", "a scaling that is not known is dropped in silence",
           _read(lambda section: section if {"linear", "default"} & set(map(str, section.values())) else None),
           INV_FREQ | TABLES, UNREAD, BOTH + TWIN),
    Mutant("own/yarn-default-factor", "an attention factor that is not stated is 1",
           _read(lambda section: {"attention_factor": 1.0, **section}), TABLES, FACTOR, TWIN),
    Mutant("own/yarn-default-truncate", "truncate that is not stated is false",
           _read(lambda section: {"truncate": False, **section}), INV_FREQ, words("yarn.truncate"), MSCALE + TWIN),
    Mutant("own/yarn-on-scores", "the attention factor on the scores", _on_scores,
           TABLES | attention("scores"), FACTOR, BOTH),
)  # fmt: skip
