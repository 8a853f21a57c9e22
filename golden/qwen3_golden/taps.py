"""The names of the places in the network, from taps.textproto: what each is computed from, and how it is laid out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import groupby
from pathlib import Path

from google.protobuf import text_format

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.dtypes import Array
from qwen3_golden.errors import ParityError

_PACKAGE = Path(__file__).resolve().parent
TABLES_ROOT = data if (data := _PACKAGE / "data").is_dir() else _PACKAGE.parent
"""The folder of the tables, taps.textproto and the like: a wheel has it inside, a checkout around the package."""
GOLDEN_ROOT = Path(os.environ.get("QWEN3_PARITY_GOLDENS") or TABLES_ROOT)
"""The folder of the golden set: cases/, checkpoints/, tokenizers/. The committed one, or the environment's."""

ENCODERS = ("encoder.", "pre_norm.", "post_norm.", "gradient.encoder.")
"""How the names of taps begin whose positions are the encoder's: Qwen3's encoder, the two classic ones, gradients."""

GIVEN_OR_NOT = ("_inputs_embeds", "input.decoder_mask")
"""Inputs that only some cases give, in the place of what stands behind them in the table."""

_LAYER = re.compile(r"\.layers\.(0|[1-9][0-9]*)\.")


@dataclass(frozen=True, slots=True)
class Place:
    """A named place with its layer filled in.

    `inputs` are the taps it is computed from in the op's order, each as its alternatives: the first that the network
    has counts. `optional` are inputs that may be absent altogether. `parameters` are canonical names; a bias may be
    absent.
    """

    name: str
    pattern: str
    op: str
    axes: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    optional: frozenset[str]
    parameters: tuple[str, ...]
    layer: int | None

    @property
    def stack(self) -> str:
        """ "encoder" or "decoder": whose positions those of the tap are."""
        return "encoder" if self.name.startswith(ENCODERS) else "decoder"

    def inputs_in(self, names: Iterable[str], config: pb.ModelConfig | None = None) -> tuple[str, ...]:
        """The inputs among the taps that a recording has, in the op's order.

        `config` tells which alternative the network has, so that none stands in for another one that was merely not
        recorded; without it, every network's taps are taken to be recorded.
        """
        present = frozenset(names)
        if config is None:
            chosen = [next((name for name in choices if name in present), "") for choices in self.inputs]
        else:
            chosen = [next(name for name in choices if _has(config, name, present)) for choices in self.inputs]
        return tuple(name for name in chosen if name in present)


def _has(config: pb.ModelConfig, name: str, present: frozenset[str]) -> bool:
    """Whether a network has a tap that stands first among alternatives; `present` says what the case is given."""
    if name.endswith(GIVEN_OR_NOT):
        return name in present
    if name.endswith(("q_norm", "k_norm", "q_norm.weight", "k_norm.weight")):
        return config.use_qk_norm
    if name.endswith("_proj.bias"):
        return config.attention_out_bias if name.endswith("o_proj.bias") else config.attention_bias
    if name == "gradient.lm_head.weight":
        return not config.tie_word_embeddings
    if name.endswith("_norm.embeddings"):
        return not config.classic_encoder.starts_with_hidden_states
    return config.rotate_encoder_keys if name.endswith("encoder_k_rope") else True


def committed_text(name: str) -> str:
    """A text file of the golden set; raises `ParityError` away from a clone of the repository."""
    path = TABLES_ROOT / name
    if not path.is_file():
        raise ParityError(
            path,
            "the golden set is not beside the package",
            expected="the folder golden/ of a clone",
            got="a package that was installed without it",
            next_step="install from a clone with pip install --editable",
        )
    return path.read_text(encoding="utf-8")


@cache
def table() -> tuple[pb.Tap, ...]:
    """The rows of taps.textproto, in network order; raises `ParityError` away from a clone of the repository."""
    return tuple(text_format.Parse(committed_text("taps.textproto"), pb.TapTable()).tap)


@cache
def _rows() -> dict[str, pb.Tap]:
    return {row.pattern: row for row in table()}


def pattern_of(name: str) -> str:
    """The name with its layer's number taken out, as the table has it; the name need not be in the table."""
    return _LAYER.sub(".layers.{layer}.", name)


@cache
def place(name: str, num_hidden_layers: int = 0) -> Place | None:
    """The place of a tap name, or None for a name that is not in the table; `num_hidden_layers` fills in {last}."""
    pattern = pattern_of(name)
    row = _rows().get(pattern)
    if row is None:
        return None
    match = _LAYER.search(name)
    layer = int(match.group(1)) if match else None
    if layer is None and "{layer}" in name:
        return None  # a pattern, no name

    def fill(text: str) -> str:
        if layer is not None:
            text = text.replace("{layer-1}", str(layer - 1)).replace("{layer}", str(layer))
            text = text.replace("{layer+1}", str(layer + 1))
        return text.replace("{last}", str(num_hidden_layers - 1))

    def alternatives(text: str) -> tuple[str, ...]:
        names = text.rstrip("?").split("|")
        if "{layer-1}" in text:  # the layer before, and only the first layer has none
            names = names[1:] if layer == 0 else names[:1]
        if "{layer+1}" in text:  # the layer behind, and only the last layer has none
            names = names[1:] if layer == num_hidden_layers - 1 else names[:1]
        return tuple(map(fill, names))

    texts = _every(row.inputs, num_hidden_layers)
    inputs = tuple(taps for text in texts if (taps := alternatives(text)))
    optional = frozenset(fill(text.rstrip("?")) for text in texts if text.endswith("?"))
    parameters = tuple(alternatives(text)[0] for text in _every(row.parameters, num_hidden_layers))
    return Place(name, pattern, row.op, tuple(row.axes), inputs, optional, parameters, layer)


def _every(texts: Iterable[str], num_hidden_layers: int) -> list[str]:
    """The texts of a row, one that says {every} once for each layer."""
    return [
        text.replace("{every}", str(layer))
        for text in texts
        for layer in range(num_hidden_layers if "{every}" in text else 1)
    ]


_RESULTS = ("logits", "generated_ids", "next_token_probs")


def _stack_of(pattern: str) -> str:
    first = pattern.partition(".")[0]
    return "decoder" if first in _RESULTS else "gradient" if first == "loss" else first


def _before_layer(pattern: str) -> str:
    """What stands before the number of a layer, empty without one."""
    beginning, layered, _ = pattern.partition("{layer}")
    return beginning if layered else ""


@dataclass(frozen=True)
class Network:
    """The places of one network: those of `stacks` ("encoder", "decoder", "pre_norm", "post_norm", "gradient").

    A decoder reads an encoder's keys only where both are there.
    """

    config: pb.ModelConfig
    stacks: frozenset[str]

    def place(self, name: str) -> Place | None:
        """The place of a tap name, None for a name of another network."""
        return place(name, self.config.num_hidden_layers)

    def inputs(self, tap: Place, has_input: Callable[[str], bool]) -> tuple[str, ...]:
        """What a place reads here, in the op's order; `has_input(name)` says whether the case has an input."""
        names = {name for alternatives in tap.inputs for name in alternatives}
        every = {name for name in names if not name.endswith(GIVEN_OR_NOT) or has_input(name)}
        without = frozenset() if {"encoder", "decoder"} <= self.stacks else tap.optional
        return tuple(name for name in tap.inputs_in(every, self.config) if name not in without)

    def blocks(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The names in the order of the network: each layer's with its prefix, those between layers with none.

        Gradients begin with the last layer's.
        """
        rows = (row.pattern for row in table() if _stack_of(row.pattern) in self.stacks)
        mine = [pattern for pattern in rows if self._reaches(pattern) and _has(self.config, pattern, frozenset())]
        for beginning, patterns in groupby(mine, key=_before_layer):
            names = tuple(patterns)
            layers = range(self.config.num_hidden_layers if beginning else 1)
            for layer in reversed(layers) if beginning.startswith("gradient.") else layers:
                prefix = f"{beginning}{layer}" if beginning else ""
                yield prefix, tuple(name.replace("{layer}", str(layer)) for name in names)

    def _reaches(self, pattern: str) -> bool:
        """Whether a gradient is one of this network: those of an encoder, only with an encoder."""
        return "encoder" in self.stacks or not (pattern.startswith("gradient.") and ".encoder" in pattern)

    def rows_kept(self, name: str) -> bool:
        """Whether a case that keeps some rows keeps some of this tap alone."""
        return not kept_whole(name)


_WHOLE = ("k_proj", "v_proj", "k_norm", "k_rope", "position_ids", "cos", "sin")


def kept_whole(name: str) -> bool:
    """Whether attention needs a tap (a name or a pattern) whole: keys, values, positions and their tables."""
    return name.endswith(_WHOLE)


def last_rows(array: Array, tap: Place, rows: int) -> Array:
    """The part of a tap that a case with `rows` keeps: the last positions of its axis `query`; all of it for 0.

    What attention needs whole (`kept_whole`) is never cut.
    """
    if not rows or "query" not in tap.axes or kept_whole(tap.name):
        return array
    cut = [slice(None)] * array.ndim
    cut[tap.axes.index("query")] = slice(-rows, None)
    return array[tuple(cut)]


def selected(name: str, globs: Iterable[str]) -> bool:
    """Whether a tap is asked for: a glob matches its name (`*` also spans dots) and none with `!` in front does.

    No glob without `!` asks for every tap.
    """
    patterns = tuple(globs)
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    asked = [pattern for pattern in patterns if not pattern.startswith("!")]
    return not asked or any(fnmatchcase(name, pattern) for pattern in asked)
