"""How the loading of a checkpoint goes wrong: in its files, in a loader that looks away, in the loaded model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file

from detection.mutants.loaders_run import Loading
from detection.mutants.mutant import Seed
from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
INDEX = "model.safetensors.index.json"

Tensors = dict[str, torch.Tensor]
Values = Callable[[torch.Tensor], torch.Tensor]


def then(*seeds: Seed) -> Seed:
    """One seed after the other."""

    def seed(loading: Loading) -> None:
        for way in seeds:
            way(loading)

    return seed


# Files: the loader reads a damaged copy; the model is verified against the whole checkpoint.


def files(change: Callable[[Path], object]) -> Seed:
    """The loader reads a copy that `change(directory)` has spoilt."""

    def seed(loading: Loading) -> None:
        loading.directory = loading.copied()
        change(loading.directory)

    return seed


def source(change: Callable[[Path], object]) -> Seed:
    """Another checkpoint, for the loader and the verification alike: `change(directory)` makes it of the committed."""

    def seed(loading: Loading) -> None:
        directory = loading.copied("source")
        change(directory)
        loading.source = loading.directory = directory

    return seed


def tensors(change: Callable[[Tensors], object], file: str = "model.safetensors") -> Callable[[Path], None]:
    """The tensors of a file go through `change`."""

    def spoil(directory: Path) -> None:
        held = load_file(directory / file)
        change(held)
        save_file({name: tensor.contiguous() for name, tensor in held.items()}, directory / file)

    return spoil


def fields(**values: Any) -> Callable[[Path], None]:
    """Fields of config.json; … takes one out."""
    return content("config.json", lambda before: before | values)


def content(file: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    """A JSON file goes through `change`; a field of … is left out."""

    def spoil(directory: Path) -> None:
        after = change(json.loads((directory / file).read_text(encoding="utf-8")))
        written = json.dumps({name: value for name, value in after.items() if value is not ...})
        (directory / file).write_text(written, encoding="utf-8")

    return spoil


# A loader as people write it: a model with fresh weights, a loop over the files, and no look at what is left over.


def target(name: str, stack: str) -> str:
    """Our parameter of a tensor of a layer, or of the final norm."""
    path = f"{stack}.{name.removeprefix('model.')}"
    return path.replace(".self_attn.", ".merged_attn.") if stack == "decoder" else path


def shards(directory: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of every file that is there, in the order of the files' names."""
    for path in sorted(directory.glob("*.safetensors")):
        yield from load_file(path).items()


def careless(
    rename: Callable[[str, str], str] = target,
    read: Callable[[Path], Iterator[tuple[str, torch.Tensor]]] = shards,
    on_meta: bool = False,
) -> Seed:
    """A loader that fills what it finds a tensor for, `rename(name, stack)`, and leaves the rest as it was built.

    Embedding, head and sentinel rows are right. `on_meta`: what nobody fills has no storage at all.
    """

    def load(directory: Path, **options: Any) -> Qwen3ForSeq2SeqLM:
        correct = load_qwen3(options.pop("whole"), **options)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model: Any = Qwen3ForSeq2SeqLM(correct.config)
        model.to(dtype=correct.dtype).eval()
        held = {}
        for name, tensor in read(directory):
            for stack in ("encoder", "decoder"):
                if (path := rename(name, stack)) in dict(model.named_parameters()) and name not in (EMBEDDING, HEAD):
                    held[path] = tensor.clone()
        for name in ("shared.weight", HEAD):
            held[name] = correct.state_dict()[name]
        if on_meta:
            model.to("meta")
        model.load_state_dict(held, strict=False, assign=True)
        model.tie_weights()
        for stack in ("encoder", "decoder"):
            getattr(model, stack).rotary_emb = getattr(correct, stack).rotary_emb
        return cast(Qwen3ForSeq2SeqLM, model)

    def seed(loading: Loading) -> None:
        loading.load = load
        loading.options["whole"] = loading.source

    return seed


# The loaded model.


def model(change: Callable[[Any], object]) -> Seed:
    """The loaded model goes through `change`."""

    def seed(loading: Loading) -> None:
        with torch.no_grad():
            change(loading.model)

    return seed


def parameter(name: str, values: Values) -> Seed:
    """A parameter of the model gets `values(before)`, in storage of its own; "{last}" is the last layer's number."""

    def change(network: Any) -> None:
        path, _, attribute = name.format(last=network.config.num_hidden_layers - 1).rpartition(".")
        module = network.get_submodule(path)
        before = getattr(module, attribute)
        setattr(module, attribute, torch.nn.Parameter(values(before.detach().clone())))

    return model(change)


def layers(path: str, values: Values, *stacks: str) -> Seed:
    """The same parameter of every layer; {attn} is what a stack calls its attention."""

    def change(network: Any) -> None:
        for stack in stacks or ("encoder", "decoder"):
            attn = "self_attn" if stack == "encoder" else "merged_attn"
            for layer in getattr(network, stack).layers:
                weight = layer.get_parameter(path.format(attn=attn))
                weight.copy_(values(weight.detach().clone()))

    return model(change)


def config(**values: Any) -> Seed:
    """Fields of the loaded model's config; a function makes them of what they were."""

    def change(network: Any) -> None:
        for name, value in values.items():
            setattr(network.config, name, value(getattr(network.config, name)) if callable(value) else value)

    return model(change)


def embedding_rows(values: Values) -> Seed:
    """The matrix of all that are tied becomes `values(before)`; an untied head stays."""

    def change(network: Any) -> None:
        tied = network.lm_head.weight is network.shared.weight
        weight = torch.nn.Parameter(values(network.shared.weight.detach().clone()))
        for module in (network.shared, network.encoder.embed_tokens, network.decoder.embed_tokens):
            module.weight = weight
        if tied:
            network.lm_head.weight = weight

    return model(change)


def noise(before: torch.Tensor) -> torch.Tensor:
    """What a parameter holds that nobody filled."""
    return torch.randn(before.shape, generator=torch.Generator().manual_seed(3)).to(before.dtype) * 0.02
