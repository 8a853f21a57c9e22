"""Seeded bugs of a loader: tensors that nobody looks for, files that are damaged, names that do not match."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from detection.mutants.loaders_entry import ATTENTION, BOTH, DEEP, QWEN2, SHARDED, TIED, loader
from detection.mutants.loaders_run import Loading
from detection.mutants.loaders_seeds import (
    EMBEDDING,
    HEAD,
    INDEX,
    Tensors,
    careless,
    content,
    files,
    shards,
    source,
    target,
    tensors,
    then,
)
from detection.mutants.mutant import REFUSED

NORM = "model.layers.1.self_attn.k_norm.weight"
_ALL = f"{ATTENTION} mlp_match norms_match"
_NEVER = ["never loaded", "holds values of no tensor of the checkpoint", "on the meta device: never filled"]


def _final_layernorm(name: str, stack: str) -> str:
    return f"{stack}.final_layernorm.weight" if name == "model.norm.weight" else target(name, stack)


def _one_name(name: str, stack: str) -> str:
    """The decoder's attention is sought under the encoder's name for it."""
    return target(name, "encoder").replace("encoder.", f"{stack}.", 1)


def _doubled(name: str, stack: str) -> str:
    return target(f"model.{name}", stack)


def _without_the_norm(tensors: Tensors) -> None:
    del tensors[NORM]


def _first_file(directory: Path) -> Iterator[tuple[str, torch.Tensor]]:
    yield from load_file(min(directory.glob("*.safetensors"))).items()


def _as_float16(directory: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in shards(directory):
        yield name, tensor.half().to(tensor.dtype)


def _last_shard_gone(directory: Path) -> None:
    max(directory.glob("*.safetensors")).unlink()


def _again_in_the_last_shard(directory: Path) -> None:
    """A tensor of the first shard stands in the last one too, with other values."""
    first, last = sorted(directory.glob("*.safetensors"))
    name, tensor = next((n, t) for n, t in sorted(load_file(first).items()) if n not in (EMBEDDING, HEAD))
    save_file(load_file(last) | {name: tensor + 0.5}, last)


def _all_in_the_first_shard(index: dict[str, Any]) -> dict[str, Any]:
    names = index["weight_map"]
    return index | {"weight_map": dict.fromkeys(names, min(names.values()))}


def _large(tensors: Tensors) -> None:
    tensors["model.layers.0.mlp.up_proj.weight"][0, 5] = 1e5


def _in_float16(loading: Loading) -> None:
    loading.options["dtype"] = torch.float16


FILES = (
    loader("FNL-01/loader_mapping",
           "the final norm is sought as final_layernorm, and what no tensor fills is not looked at",
           careless(_final_layernorm), "norms_match", ["never loaded: all ones"], BOTH),
    loader("WLD-04/loader", "the decoder's attention is sought as self_attn, and skipped", careless(_one_name),
           "decoder_attention_match", _NEVER, (*BOTH, QWEN2, SHARDED)),
    loader("WLD-05/loader", "a tensor that is missing is a warning among others",
           then(files(tensors(_without_the_norm)), careless(on_meta=True)), ATTENTION,
           ["on the meta device: never filled"], BOTH),
    loader("WLD-05/loader_file", "a tensor is missing", files(tensors(_without_the_norm)), REFUSED, [NORM], BOTH),
    loader("WLD-06/loader", "the prefix is not taken off: nothing matches", careless(_doubled), _ALL, _NEVER,
           (*BOTH, QWEN2, DEEP)),
    loader("WLD-06/loader_file", "every name has the prefix twice",
           files(tensors(lambda held: [held.update({f"model.{name}": held.pop(name)}) for name in list(held)])),
           REFUSED, [f"model.{NORM}"], BOTH),
    loader("WLD-12/loader", "only the first file of a sharded checkpoint is read", careless(read=_first_file), _ALL,
           _NEVER, (SHARDED,)),
    loader("WLD-12/loader_pickles", "weights are in pickles",
           files(lambda directory: (directory / "model.safetensors").rename(directory / "pytorch_model.bin")), REFUSED,
           ["model.safetensors"], BOTH),
    loader("WLD-13/loader", "a shard that is missing is not missed", then(files(_last_shard_gone), careless()), _ALL,
           _NEVER, (SHARDED,)),
    loader("WLD-13/loader_duplicate", "of a tensor that is stored twice the later one wins",
           then(files(_again_in_the_last_shard), careless()), "norms_match", ["elements differ"], (SHARDED,)),
    loader("WLD-13/loader_missing_file", "a shard is missing", files(_last_shard_gone), REFUSED,
           ["model-00002-of-00002.safetensors"], (SHARDED,)),
    loader("WLD-13/loader_duplicate_file", "a tensor is stored twice", files(_again_in_the_last_shard), REFUSED,
           ["twice"], (SHARDED,)),
    loader("WLD-13/loader_index", "the index names the wrong shard", files(content(INDEX, _all_in_the_first_shard)),
           REFUSED, [NORM], (SHARDED,)),
    loader("WLD-18/loader_read", "every tensor goes through float16", careless(read=_as_float16),
           f"{ATTENTION} mlp_match", ["rounded to float16 on the way"], (*BOTH, QWEN2)),
    loader("WLD-18/loader_overflow", "a value beyond 65504 is loaded in float16",
           then(source(tensors(_large)), _in_float16), REFUSED, ["model.layers.0.mlp.up_proj.weight", "float16"], BOTH),
    loader("HED-05/loader", "a redundant head with other values is stored beside a tie",
           files(tensors(lambda held: held.update({HEAD: held[EMBEDDING] + 1}))), REFUSED, [HEAD], (TIED,)),
    loader("EMB-08/loader_file", "the table is as long as the tokenizer",
           files(tensors(lambda held: held.update({EMBEDDING: held[EMBEDDING][:-3]}))), REFUSED, [EMBEDDING], BOTH),
    loader("own/loader-not-a-number", "a weight is NaN",
           source(tensors(lambda held: held[NORM].index_fill_(0, torch.tensor([4]), float("nan")))), REFUSED, [NORM],
           BOTH),
)  # fmt: skip
