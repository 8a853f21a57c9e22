"""A recording that is filled by name: `recording["layers.0.q_proj"] = array`, of NumPy, JAX, MLX or torch.

Every array is laid out as its tap, cut into the golden's steps, and written as it comes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from qwen3_golden import Array, ParityError, Tensor, Writer, last_rows, minor_of, pattern_of, pb, place, tensor
from qwen3_golden.dtypes import NUMPY
from qwen3_golden.origins import Origin, written
from qwen3_golden.recording import plain_provenance
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.judge.next_command import command
from qwen3_parity.recording.arithmetic import Widened, arithmetic_of
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.graph_steps import cut_into_steps, wanted_of
from qwen3_parity.recording.graph_taps import tap_called
from qwen3_parity.recording.layout import is_ambiguous, lay_out, readings, sizes_of, split_axes
from qwen3_parity.recording.names import patterns_of_stack, tap_named
from qwen3_parity.recording.packed import in_their_slots, real_tokens
from qwen3_parity.recording.slots import Forward

FOLDER = Path("build/parity")
_CHOSEN = ("batch", "new")
"""The axes of tokens that were chosen."""


@dataclass
class Recorder:
    """What `record` gives: assign taps to it by name, at `step` or, as `recording[name, step]`, at another one.

    `recording[name, :] = array` is all steps in one array, as a forward over every slot makes it. `path` is the file,
    whole when the `with` has ended; anything that takes a path takes the recorder. `left_out` says of patterns of taps
    why they were not recorded, `origins` of taps which line of the user's code makes them. `arithmetic` is said by who
    knows it, as "bfloat16" or "other" as well; `stored` is that of the numbers' type, which counts where nothing is
    said and float32 has more in it than a narrower type. `golden_choices`: the run was given the golden's choices of
    experts (`case.golden[name, step]`) and made none of its own. `parameters` are digests of the model's, `loaded` the
    numbers of those that are not the golden's, see `held_parameters`.
    """

    case: Case
    path: Path
    writer: Writer
    producer: str = "foreign"
    arithmetic: pb.Arithmetic = pb.ARITHMETIC_UNSPECIFIED
    stored: pb.Arithmetic = pb.ARITHMETIC_UNSPECIFIED
    backend: pb.Backend = pb.FOREIGN
    golden_choices: bool = False
    step: int = 0
    parameters: Sequence[pb.Parameter] = ()
    loaded: Sequence[Tensor] = ()
    left_out: dict[str, ParityError] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    _widened: Widened = field(default_factory=Widened)
    _keys: set[tuple[str, int]] = field(default_factory=set)
    _surplus: list[str] = field(default_factory=list)
    _orders: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    _packed: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, arithmetic_of(value) if name == "arithmetic" else value)

    def __fspath__(self) -> str:
        return str(self.path)

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __setitem__(self, key: str | tuple[str, int | slice], value: Any) -> None:
        name, step = key if isinstance(key, tuple) else (key, self.step)
        bounds = self.bounds
        if self.case.is_graph:
            tap = tap_called(name, self.case.golden)
        else:
            tap = tap_named(name, patterns_of_stack(self.case.stack))
        if isinstance(step, int) and not 0 <= step < len(bounds):
            raise ParityError(
                f"recording[{name!r}, {step}]",
                "the case has no such step",
                expected=f"a step from 0 to {len(bounds) - 1}",
                got=step,
                next_step="count the case's steps from 0",
            )
        start, stop = bounds[step] if isinstance(step, int) else (0, bounds[-1][1])
        array, dtype = elements(value, f"recording[{name!r}]")
        self.add(tap, array, dtype, Forward(start, start, stop), f"recording[{name!r}]")

    @property
    def recognised(self) -> pb.Arithmetic:
        """The narrow arithmetic that most taps recorded so far are in, or whose numbers all are that are float32."""
        if self.arithmetic or self.stored not in (pb.ARITHMETIC_F32, pb.ARITHMETIC_UNSPECIFIED):
            return pb.ARITHMETIC_UNSPECIFIED
        return self._widened.arithmetic

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The slots at which each step begins and ends."""
        return list(pairwise(accumulate(self.case.lengths, initial=0)))

    def add(
        self,
        name: str,
        array: Array,
        dtype: pb.DType | None,
        forward: Forward,
        where: str,
        order: tuple[str, ...] = (),
        *,
        by_name: bool = False,
    ) -> None:
        """Lay out a tap of a forward and write its part in each step; `order` are its axes, empty where shapes tell.

        `by_name`: of a golden with a graph, it comes from a module that is called as the golden's, so it has the
        golden's order wherever that fits. Raises `ParityError` for a shape that is not the tap's in any order, or in
        two.
        """
        parts: Iterator[tuple[int, Array]]
        if self.case.is_graph:
            golden, batch = self.case.golden, self.case.batch
            array, order = self._in_slots(name, array, forward, order, by_name=by_name)
            parts = cut_into_steps(array, golden, name, forward, self.bounds, batch, where, order, by_name=by_name)
        else:
            parts = self._parts(name, array, forward, where, order)
        for step, part in parts:
            self._write(name, step, np.ascontiguousarray(part), dtype, where)

    def _in_slots(
        self, name: str, array: Array, forward: Forward, order: tuple[str, ...], *, by_name: bool
    ) -> tuple[Array, tuple[str, ...]]:
        """A tap of a golden with a graph and its axes; one of real tokens alone is laid into the slots."""
        try:
            layout = wanted_of(self.case.golden, name, forward, self.bounds, self.case.batch)
        except ValueError:  # said where it is cut into steps
            return array, order
        real = real_tokens(self.case, forward)
        if layout is None or real is None:
            return array, order
        return in_their_slots(self._packed, name, array, layout, real, order, by_name=by_name)

    def _parts(
        self, name: str, array: Array, forward: Forward, where: str, order: tuple[str, ...]
    ) -> Iterator[tuple[int, Array]]:
        """What each step that a forward completes has of a tap of taps.textproto."""
        case, tap_place = self.case.golden.case, place(name, self.case.golden.case.config.num_hidden_layers)
        if tap_place is None or not any((name, step) in self.case.golden for step in range(len(self.bounds))):
            _refuse_layer_beyond(where, name, case.config)
            self._surplus.append(name)
            return  # a golden that was captured with some of its taps
        sizes = self.sizes(forward)
        if tuple(tap_place.axes) == _CHOSEN:  # how many they are is the candidate's
            if array.ndim != len(_CHOSEN) or len(array) != sizes["batch"]:
                raise self.misfit(where, name, tap_place.axes, forward, array.shape)
            yield 0, array
            return
        if alone := is_last_alone(name, array.shape, sizes):
            array, forward = array.reshape(sizes["batch"], 1, -1), forward._replace(first=forward.stop - 1)
        laid = self._laid_out(name, array, tap_place.axes, forward, where, order)
        query, key = ([axis == word for axis in tap_place.axes] for word in ("query", "key"))
        for step, (start, stop) in enumerate(self.bounds):
            known = self.case.golden.get(name, step)
            if known is None or start < forward.new or stop > forward.stop or (alone and stop < forward.stop):
                continue
            rows, slots = slice(max(0, start - forward.first), stop - forward.first), slice(stop)
            cut = tuple(rows if q else slots if k else slice(None) for q, k in zip(query, key, strict=True))
            yield step, last_rows(laid[cut] if laid.ndim else laid, tap_place, case.rows)

    def _write(self, name: str, step: int, part: Array, dtype: pb.DType | None, where: str) -> None:
        known = self.case.golden[name, step]
        if known.info.dtype == pb.I64 and part.dtype.kind in "iu":  # JAX has int32 alone: wider is the same
            part, dtype = part.astype(np.int64), pb.I64
        if (name, step) in self._keys:
            raise ParityError(
                where,
                f"{name} (step {step}) is recorded already",
                expected="each tap once in a step",
                got="a second tensor",
                next_step="run the case once, and name each tap once",
            )
        self._keys.add((name, step))
        info = known.info
        item = tensor(name, part, step=step, dtype=dtype, axes=info.axes, op=info.op, inputs=info.inputs)
        self._widened.see(known, part, item.info.dtype, self.case.golden.case.mode)
        self.writer.add(item)

    def sizes(self, forward: Forward) -> dict[str, int]:
        """How long each axis is in a forward."""
        batch = len(next(iter(self.case.arrays.values())))
        return sizes_of(self.case.golden.case.config, batch, forward.stop - forward.first, forward.stop)

    def _laid_out(
        self, name: str, array: Array, axes: Sequence[str], forward: Forward, where: str, order: tuple[str, ...]
    ) -> Array:
        sizes, pattern = self.sizes(forward), pattern_of(name)
        parts = split_axes(pattern, axes)
        order = order or self._orders.get((pattern, where), ())
        if not order:
            if array.ndim == len(axes) - 1 and pattern.endswith(("cos", "sin", "position_ids")):
                array = np.broadcast_to(array, (sizes["batch"], *array.shape))  # one for all rows
            orders = list(readings(array.shape, parts, sizes))
            if is_ambiguous(orders):
                raise ParityError(
                    where,
                    f"its shape leaves open whether heads or positions come first in {pattern}",
                    expected=" or ".join(f'axes = "{" ".join(reading)}"' for reading in orders),
                    got=f"shape {array.shape}",
                    next_step="say its axes in the name map",
                )
            if not orders:
                raise self.misfit(where, name, axes, forward, array.shape)
            order = self._orders[pattern, where] = orders[0]
        if {"channel"} & set(order) or sorted(order) != sorted(parts):
            order = _joined(order, parts)
        try:
            laid = lay_out(array, order, parts, sizes)
        except (ValueError, KeyError):
            raise self.misfit(where, name, order, forward, array.shape) from None
        return laid.reshape([prod(sizes[a] for a in split_axes(pattern, (axis,))) for axis in axes])

    def misfit(self, where: str, name: str, axes: Sequence[str], forward: Forward, shape: Sequence[int]) -> ParityError:
        """What is said of a tensor that is not the tap's in any order."""
        sizes, pattern = self.sizes(forward), pattern_of(name)
        lengths = [prod(sizes.get(a, 0) for a in split_axes(pattern, (axis,))) for axis in axes]
        return ParityError(
            where,
            f"its shape is not that of {name}, in any order of its axes: {list(shape)}, not {lengths}",
            expected=f"[{', '.join(axes)}] = {lengths}, or the same with axes exchanged or heads joined",
            got=f"shape {list(shape)}",
            next_step="check which tap this is, and put its axes in that order; a name map may say them",
        )

    def finish(self) -> None:
        """Write what the recording says of itself; raises `ParityError` when it holds nothing."""
        golden = self.case.golden
        if not self._keys:
            raise ParityError(
                self.case.name,
                "nothing was recorded",
                expected="at least one tap",
                got=f"taps that the golden does not have: {', '.join(self._surplus[:3])}" if self._surplus else "none",
                next_step=command("show", golden.source)
                if self._surplus
                else 'assign taps, as recording["layers.0.q_proj"] = array',
            )
        delivered = {name if self.case.is_graph else pattern_of(name) for name, _ in self._keys}
        listed = [pattern for pattern in golden.run.materialised if pattern in delivered or pattern.startswith(GIVEN)]
        run = pb.Run(
            arithmetic=self.arithmetic or self.recognised or self.stored or golden.run.arithmetic,
            backend=self.backend,
            materialised=[*listed, *sorted(delivered.difference(listed))],
            golden_choices=self.golden_choices,
            origin=written({name: self.origins[name] for name, _ in sorted(self._keys) if name in self.origins}),
        )
        for item in self.loaded:
            self.writer.add(item)
        self.writer.finish(golden.case, _provenance(self.producer), run, self.parameters)


@contextmanager
def recorder(case: Case, path: Path | None = None, producer: str = "foreign") -> Iterator[Recorder]:
    """A recording of `case`, filled by name inside the `with`; nothing is written when that ends in an exception."""
    file = path or FOLDER / f"{case.name}.pb"
    with Writer(file, schema_minor=minor_of(case.golden.case)) as writer:
        for item in case.golden:
            if item.info.name.startswith(GIVEN):
                info = item.info
                writer.add(tensor(info.name, item.array, dtype=info.dtype, axes=info.axes, op=info.op))
        recording = Recorder(case, file, writer, producer)
        yield recording
        recording.finish()


def is_last_alone(name: str, shape: Sequence[int], sizes: Mapping[str, int]) -> bool:
    """Whether these are logits of the last position of a forward over several, as an engine has them that generates."""
    return name == "logits" and sizes["query"] > 1 and prod(shape) == sizes["batch"] * sizes["vocab"]


def elements(value: Any, where: str) -> tuple[Array, pb.DType | None]:
    """A copy of an array of any library, and its dtype where NumPy's does not say it (bfloat16, as uint16 bits)."""
    if type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "data_ptr"):
        from qwen3_reference.torch_tensors import to_numpy

        try:
            array, dtype = to_numpy(value.detach().clone())
        except Exception as error:  # a tensor without elements at hand, or of a dtype that a recording has no place for
            raise _no_array(where, value, error if str(error) else type(error).__name__) from None
        return array, dtype
    if isinstance(value, np.ma.MaskedArray):
        raise _no_array(where, value, "a masked array, of which elements have no value")
    try:
        taken = np.asarray(value) if hasattr(value, "__array__") or not hasattr(value, "__dlpack__") else None
        array = np.array(np.from_dlpack(value) if taken is None else taken)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise _no_array(where, value, error) from None
    if array.dtype.name == "bfloat16":  # ml_dtypes', which JAX has
        return array.view(np.uint16), pb.BF16
    if array.dtype not in NUMPY.values():
        raise _no_array(where, value, f"dtype {array.dtype}")
    return array, None


def _joined(order: Sequence[str], parts: Sequence[str]) -> tuple[str, ...]:
    """Axes as somebody wrote them, "channel" for the heads that a tap has."""
    rest = tuple(part for part in parts if part not in ("batch", "query", "key"))
    return tuple(part for axis in order for part in (rest if axis == "channel" else (axis,)))


def _no_array(where: str, value: Any, got: object) -> ParityError:
    return ParityError(
        where,
        "this cannot be recorded as an array",
        expected="an array of float64, float32, float16, bfloat16, int64, int32, uint8 or bool",
        got=f"{type(value).__module__}.{type(value).__name__}: {got}",
        next_step="hand over a dense array with its numbers, of NumPy if need be; one of MLX in bfloat16 as float32",
    )


def _refuse_layer_beyond(where: str, name: str, config: pb.ModelConfig) -> None:
    """Raise `ParityError` for a tap of a layer that the network does not have."""
    layer = re.search(r"(?<=\.)\d+(?=\.)", name)
    if layer is None or not int(layer[0]) >= config.num_hidden_layers > 0:
        return
    raise ParityError(
        where,
        f"the golden has no {name}",
        expected=f"layers 0 to {config.num_hidden_layers - 1}",
        got=name,
        next_step="build the model by the case's own config.json: case.checkpoint",
    )


def _provenance(producer: str) -> pb.Provenance:
    if "torch" in sys.modules:
        from qwen3_reference.provenance import provenance

        return provenance(producer)
    return plain_provenance(producer)
