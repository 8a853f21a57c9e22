"""What the adapters share: the taps of modules, and torch modules that show what goes in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from qwen3_golden import pb, table

Array = np.ndarray[Any, np.dtype[Any]]
ATTENTION, LAYER = "decoder.layers.*.merged_attn.", "decoder.layers.*."
MODULES = [
    "decoder.embed_tokens",
    *(LAYER + name for name in ("input", "input_layernorm", "attn_residual", "post_attention_layernorm", "output")),
    *(f"{ATTENTION}{name}" for name in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "context", "o_proj")),
    *(f"{LAYER}mlp.{name}" for name in ("gate_proj", "up_proj", "act", "down_proj")),
    "decoder.norm",
    "logits",
]
"""The taps that are what goes into a module or comes out of one."""
ROTATED = [*MODULES, f"{ATTENTION}q_rope", f"{ATTENTION}k_rope"]
"""And those of an engine whose rotation is a module, too."""


def weights(directory: Path) -> Mapping[str, Array]:
    """The tensors of a checkpoint by Hugging Face's names; a tied head has its own entry."""
    found = {name: value for file in directory.glob("*.safetensors") for name, value in load_file(file).items()}
    return {"lm_head.weight": found["model.embed_tokens.weight"]} | found


def passes(case: Any) -> Iterator[tuple[int, slice]]:
    """Each step and the slots it feeds."""
    stop = 0
    for step, length in enumerate(case.steps):
        yield step, slice(stop, stop := stop + length)


def run(patterns: list[str]) -> Any:
    """What a recording says of an engine that shows `patterns` and no others."""
    known = {row.pattern for row in table()}
    listed = [pattern.replace("*", "{layer}") for pattern in patterns]
    assert known.issuperset(listed)
    return pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=listed)


Taken = list[tuple[str, Any]]


def watch(module: Any, taken: Taken, before: str, after: str | tuple[tuple[str, int], ...]) -> None:
    """Append what goes into a torch module and what comes out; a fused product is split into names and widths."""

    def hook(_: Any, given: tuple[Any, ...], options: Mapping[str, Any], result: Any) -> None:
        if before:
            taken.append((before, (given or tuple(options.values()))[0]))
        if isinstance(after, str):
            taken.append((after, result[0] if isinstance(result, tuple) else result))
        else:
            parts = result.split([width for _, width in after], dim=-1)
            taken.extend((name, part) for (name, _), part in zip(after, parts, strict=True))

    module.register_forward_hook(hook, with_kwargs=True)


def watch_network(taken: Taken, layers: Any, modules: Mapping[str, tuple[str, str]], embedding: Any, norm: Any) -> None:
    """Watch `modules` of each layer by their paths, with the taps that go in and come out, and what stands around."""
    for index, layer in enumerate(layers):
        for path, (before, after) in modules.items():
            watch(layer.get_submodule(path), taken, before and layer_name(index, before), layer_name(index, after))
    watch(embedding, taken, "", "decoder.embed_tokens")
    watch(norm, taken, "", "decoder.norm")


class Watched:
    """A callable in the place of a module: it appends what goes in and what comes out under the next name."""

    def __init__(self, inner: Any, taken: Taken, before: str, *after: str) -> None:
        self.inner, self.taken, self.before, self.after = inner, taken, before, cycle(after)

    def __call__(self, x: Any, *rest: Any, **options: Any) -> Any:
        result = self.inner(x, *rest, **options)
        self.taken += [(self.before, x), (next(self.after), result)]
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


HEADS_FIRST = ("_norm", "_rope")
"""How the names of taps end whose heads an engine has before the positions."""


def as_taps(taken: Taken, config: Any, length: int, heads_first: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
    """The last `length` rows of what was taken, in the taps' axes; entries without a name are left out."""
    for name, value in taken:
        if not name:
            continue
        array, kind = np.asarray(value.detach().numpy() if hasattr(value, "detach") else value), name.rpartition(".")[2]
        if kind.startswith("cache_"):
            yield name, array
            continue
        if kind.endswith(HEADS_FIRST) and kind.endswith(heads_first):
            array = array.swapaxes(1, 2)
        if kind == "context":
            array = array.reshape(*array.shape[:2], config.num_attention_heads, config.head_dim)
        if kind in ("q_proj", "k_proj", "v_proj"):
            array = array.reshape(*array.shape[:2], -1)
        array = array[:, -length:]
        yield name, array.swapaxes(1, 2) if kind.endswith("_rope") else array


Inputs = Mapping[str, Array]


def runner(
    name: str,
    taken: Taken,
    forward: Callable[[Inputs, slice], Any],
    patterns: list[str],
    heads_first: tuple[str, ...] = HEADS_FIRST,
) -> Callable[..., None]:
    """A runner of `forward(a case's inputs, the slots of a step)`, which gives logits and fills `taken`."""

    def run_case(case: Any, inputs: Inputs, tap: Callable[..., None], records: Callable[[str], bool]) -> None:
        for step, now in passes(case):
            taken.clear()
            logits = forward(inputs, now)
            taken.append(("logits", logits))
            for tap_name, array in as_taps(taken, case.config, now.stop - now.start, heads_first):
                if records(tap_name):
                    tap(tap_name, step, array)

    run_case.run, run_case.producer = run(patterns), name  # type: ignore[attr-defined]
    return run_case


def causal_runner(
    name: str, taken: Taken, forward: Callable[[Array, slice], Any], patterns: list[str], **layout: Any
) -> Callable[..., None]:
    """As `runner`, of `forward(ids [batch, seq] up to now, the step's slots)`: for plain rows without padding."""

    def of_ids(inputs: Inputs, now: slice) -> Any:
        return forward(inputs["input.decoder_input_ids"][:, : now.stop], now)

    return runner(name, taken, of_ids, patterns, **layout)


layer_name = partial("decoder.layers.{}.{}".format)
