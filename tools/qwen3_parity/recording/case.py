"""A golden as the case that a model of one's own is run on: its inputs as torch tensors, its checkpoint, its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, Tensor, pb, read
from qwen3_parity.checkpoints.graph_weights import directory_of
from qwen3_parity.checkpoints.weights import checkpoint_directories, checkpoints_of, weights_of
from qwen3_parity.judge.golden_path import golden_path

if TYPE_CHECKING:
    import torch

_INPUT = "input."
_IDS = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")
"""What a forward's slots are counted in, a decoder's first: what its encoder is given has a length of its own."""


@dataclass(frozen=True)
class Case:
    """A golden and what it takes to run it."""

    path: Path
    golden: Recording
    model: Path | None = None

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The case's name, as "decoder/plain"."""
        return self.golden.case.name

    @property
    def checkpoint(self) -> Path:
        """The directory of the case's weights; raises `ParityError` when it is not there, or the case has none."""
        directories = self.directories
        if not directories:
            raise ParityError(
                self.name,
                "the case has no checkpoint: its weights were in memory alone",
                expected="a golden of a checkpoint's directory",
                got="none",
                next_step="build the model as it was built for the golden, or capture one with --model",
            )
        return next(iter(directories.values()))

    @property
    def directories(self) -> dict[str, Path]:
        """The directories of the case's weights by role; of a golden with a graph also the one that it lies in.

        Raises `ParityError` for one that is not there.
        """
        case, model = self.golden.case, self.model
        if self.is_graph and model is None:
            model = directory_of(self.golden, GOLDEN_ROOT / "checkpoints")
        root = checkpoints_of(self.path) if self.is_graph else GOLDEN_ROOT / "checkpoints"
        return checkpoint_directories(case, root, model)

    @property
    def weights(self) -> Mapping[str, Array]:
        """The case's parameters by canonical name, read when they are asked for; `ParityError` when they are not there.

        A case of one op has its parameters among its taps.
        """
        return weights_of(self.golden, GOLDEN_ROOT / "checkpoints", self.model)

    @property
    def is_graph(self) -> bool:
        """Whether it is a case of any transformers model, whose golden has its graph."""
        return self.golden.case.mode == pb.GRAPH

    @property
    def is_causal(self) -> bool:
        """Whether no slot sees what follows it, as far as it is known: of a golden with a graph it is not."""
        return not self.is_graph and self.stack == "decoder"

    @property
    def stack(self) -> str:
        """ "encoder" or "decoder"; raises `ParityError` for a case that is not one forward of one stack of layers."""
        stacks = {pb.ENCODER: "encoder", pb.CAUSAL: "decoder"}
        if self.golden.case.mode not in stacks:
            raise ParityError(
                self.name,
                "this case is not a run of one stack of layers, so hooks on modules cannot record it",
                expected="a causal decoder (decoder/*, llama/*), an encoder (encoder/*), or a golden with a graph",
                got=f"mode {pb.Mode.Name(self.golden.case.mode)}",
                next_step="choose another case, or write a factory for qwen3-parity record --impl",
            )
        return stacks[self.golden.case.mode]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The query lengths of the golden's steps; an encoder has one.

        Raises `ParityError` for a golden with a graph whose steps are not those of its ids.
        """
        steps = self.golden.case.steps
        if self.is_graph:
            _refuse_other_steps(steps, self.arrays[self.ids], self.golden.source)
        return tuple(steps) if steps else (next(iter(self.arrays.values())).shape[1],)

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The case's inputs as NumPy arrays, all slots at once, by Hugging Face's names of a forward's arguments.

        `input_ids` or `inputs_embeds` `[batch, slot(, hidden)]`, `attention_mask` (1 = a token) and `position_ids`
        `[batch, slot]` as int64; `mask` `[batch, slot, slot]` bool where the case says who sees whom. Of a golden with
        a graph whatever its model's forward takes, as it is stored, bfloat16 as float32.
        """
        if self.is_graph:
            return {t.info.name.removeprefix(_INPUT): np.array(t.values()) for t in self._inputs(_INPUT)}
        begin = f"{_INPUT}{self.stack}_"
        inputs = {t.info.name.removeprefix(begin): t.values() for t in self._inputs(begin)}
        return {name: array.astype(np.int64) if array.ndim == 2 else array.copy() for name, array in inputs.items()}

    @property
    def ids(self) -> str:
        """The input that tells the slots of a forward: ids, or embeddings in their place; a decoder's where it has any.

        Raises `ParityError` for a golden with a graph that has no such input.
        """
        return _ids_among(self.arrays, self.golden.source)

    @property
    def batch(self) -> int:
        """How many rows the case has."""
        return len(self.arrays[self.ids])

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """All slots as one forward takes them: `model(**case.inputs)`. See `arrays` for names, shapes and dtypes."""
        return self._until(0, sum(self.lengths))

    @property
    def steps(self) -> list[dict[str, torch.Tensor]]:
        """As `inputs`, a prefill and decode steps, for a model with a cache: one forward for each.

        Ids and positions are those of a step alone, the attention mask covers all slots up to its end; what an encoder
        is given stands whole in each.
        """
        return [self._until(start, stop) for start, stop in pairwise(accumulate(self.lengths, initial=0))]

    def _inputs(self, begin: str) -> list[Tensor]:
        return [item for item in self.golden if item.info.name.startswith(begin)]

    def _until(self, start: int, stop: int) -> dict[str, torch.Tensor]:
        import torch

        if self.is_graph:
            axes = {t.info.name.removeprefix(_INPUT): t.info.axes for t in self._inputs(_INPUT)}
            cut = until(self.arrays, axes, sum(self.lengths), start, stop)
        else:
            begins = {"attention_mask": 0}
            cut = {name: array[:, begins.get(name, start) : stop] for name, array in self.arrays.items()}
        if (
            "mask" in cut and not self.is_graph
        ):  # it takes the place of who is a token, as Hugging Face adds it to scores
            hidden = ~cut.pop("mask")[:, None, :, :stop]
            cut["attention_mask"] = np.where(hidden, np.finfo(np.float32).min, np.float32(0))
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in cut.items()}


def golden(name: str | Path | Case, *, model: str | Path | None = None) -> Case:
    """The golden of a case's name ("decoder/plain") or a file; `model` is the checkpoint of a captured case.

    Raises `ParityError` when there is none.
    """
    if isinstance(name, Case):
        return name
    path = golden_path(str(name))
    return Case(path, read(path), None if model is None else Path(model))


def _ids_among(arrays: Mapping[str, Array], where: object) -> str:
    """The name of the ids or embeddings among the inputs of a case; raises `ParityError` where there are none."""
    for name in _IDS:
        if name in arrays and arrays[name].ndim > 1:
            return name
    raise ParityError(
        where,
        "its inputs have no ids, so nobody can tell which slots a forward covers",
        expected=f"[batch, slot] as input.{' or input.'.join(_IDS)}",
        got=", ".join(f"input.{name}" for name in arrays) or "no input",
        next_step="capture the model on ids, or on embeddings in their place",
    )


def _refuse_other_steps(steps: Sequence[int], ids: Array, where: object) -> None:
    """Raise `ParityError` where the steps of a case are none, or not as long as its ids `[batch, slot]` together."""
    if min(steps, default=0) > 0 and sum(steps) == ids.shape[1] and ids.size:
        return
    raise ParityError(
        where,
        "the steps of the case are not those of its ids",
        expected="one row or more, and query lengths of all slots together",
        got=f"shape {list(ids.shape)}, steps {list(steps)}",
        next_step="capture the golden again",
    )


def until(
    arrays: Mapping[str, Array], axes: Mapping[str, Sequence[str]], total: int, start: int, stop: int
) -> dict[str, Array]:
    """The inputs of the slots `start` to `stop` of `total`: a mask of tokens from slot 0, what has no slots whole.

    An axis called "query" is cut at both ends, one called "key" at its end; without names the second of `total` slots
    is one. Beside a decoder's inputs those of its encoder are whole.
    """
    decoder = any(name.startswith("decoder_") for name in arrays)
    cut = dict[str, Array]()
    for name, array in arrays.items():
        named = axes.get(name) or ("batch", "query", *("channel",) * array.ndim)[: array.ndim]
        whole = decoder and not name.startswith("decoder_")
        slices = [slice(None)] * array.ndim
        for number, (axis, size) in enumerate(zip(named, array.shape, strict=True)):
            if whole or size != total or axis not in ("query", "key"):
                continue
            from_start = axis == "key" or (array.ndim == 2 and name.endswith("attention_mask"))
            slices[number] = slice(0 if from_start else start, stop)
        cut[name] = array[tuple(slices)]
    return cut
