"""Recording an implementation under test on the case of a golden: the same inputs, the same names, another model."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from qwen3_golden import (
    GOLDEN_ROOT,
    Array,
    ParityError,
    Recording,
    Writer,
    last_rows,
    minor_of,
    pb,
    place,
    read,
    selected,
    tensor,
)
from qwen3_golden.dtypes import ARITHMETIC as ARITHMETIC_OF
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.judge.declared import known_patterns, nearest, patterns_of
from qwen3_parity.judge.match import GIVEN, refuse_weights
from qwen3_parity.recording.held import held_parameters
from qwen3_reference.provenance import provenance
from qwen3_reference.torch_tensors import DTYPES, to_numpy

Value = torch.Tensor | Array
Tap = Callable[[str, int, Value], None]
"""`tap(name, step, value)`: hands over the tensor of a tap of taps.textproto; the value must not change afterwards."""

ARITHMETIC = {torch_dtype: ARITHMETIC_OF[code] for torch_dtype, code in DTYPES.items() if code in ARITHMETIC_OF}


class Runner(Protocol):
    """A model that is ready to run cases, as a factory gives it.

    It may also have the attributes `run` (a `pb.Run`: arithmetic, backend, the patterns it materialises or globs over
    them, whether it rotates by the golden's tables; what it leaves unset is the golden's arithmetic, FOREIGN, every tap
    and angles of its own), `parameters` (canonical name to tensor) and `producer` (its name).
    """

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, records: Callable[[str], bool], /) -> None:
        """Run `case` once and hand every tap whose name it `records` to `tap`.

        `inputs` are the golden's `input.*` tensors by name: encoder_input_ids, encoder_attention_mask,
        encoder_position_ids `[batch, key]` and decoder_* `[batch, total]`, and its RoPE tables (see `tables_of`);
        `case.steps` are the decoder's query lengths, one forward each. Where the case has `generation`,
        `next_token_probs` and `generated_ids` are handed over as golden/README.md says. Called twice on the same object
        when the case says `after`. A case with `training` is one step without a cache: `input.labels [batch, total]`
        are given, and the loss and every gradient (`gradient.<tap>`, `gradient.<parameter>`) are taps like any other.
        """


Factory = Callable[[pb.Case, Mapping[str, Path]], Runner]
"""`factory(case, checkpoints)`: builds the model of a case from its directories by role, Hugging Face's or exported."""


def load_factory(name: str) -> Callable[..., Any]:
    """The factory behind "package.module:function", of a network or a tokenizer; `ParityError` when there is none."""
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        before, _, last = name.strip(":").rpartition(".")
        raise ParityError(
            name,
            "no factory is named: the module and its function stand on two sides of a colon",
            expected="package.module:factory, a function factory(case, checkpoints)",
            got=name,
            next_step=f"give --impl {f'{before}:{last}, or ' if before else ''}{name.strip(':')}:NAME_OF_THE_FUNCTION",
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:  # a console script has its own folder there instead
        sys.path.append(str(Path.cwd()))
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # it is somebody else's code that is run here
        raise ParityError(
            name,
            "the implementation cannot be imported",
            expected="package.module:factory, importable from here",
            got=f"{type(error).__name__}: {error}",
            next_step="install the package or set PYTHONPATH; where the module itself fails, mend it",
        ) from None
    if not callable(factory):
        raise ParityError(
            name,
            "the factory cannot be called",
            expected="factory(case, checkpoints)",
            got=type(factory).__name__,
            next_step="see `Factory` in qwen3_parity.recording.record, for a tokenizer in qwen3_parity.text.runner",
        )
    checked: Callable[..., Any] = factory
    return checked


def inputs_of(golden: Recording) -> dict[str, Array]:
    """Copies of the tensors that a case is given (`input.*`, and `parameter.*` of an op), by name."""
    return {t.info.name: t.array.copy() for t in golden if t.info.name.startswith(GIVEN)}


def tables_of(golden: Recording) -> dict[str, Array]:
    """The golden's RoPE tables by tap name, all steps joined, `[batch, seq, head_dim]`.

    A port is judged on computing them. One that rotates by these says so (`run.golden_tables`), and is judged by the
    narrower floors: libraries differ by an ulp of the angle.
    """
    steps: dict[str, list[Array]] = {}
    for t in golden:
        if t.info.op in ("cos", "sin") and not t.info.name.startswith("output."):
            steps.setdefault(t.info.name, []).append(t.values())
    return {name: np.concatenate(parts, axis=1) for name, parts in steps.items()}


@contextmanager
def foreign_code(case: pb.Case) -> Iterator[None]:
    """What the implementation raises becomes one message that says where; our own errors pass."""
    try:
        yield
    except ParityError:
        raise
    except (Exception, SystemExit) as error:  # what exits has not recorded, whatever it says
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}"
        raise ParityError(
            case.name,
            "the implementation failed on this case",
            expected="a run to the end",
            got=f"{type(error).__name__}: {error} ({where})",
            next_step="mend the implementation; no recording was written",
            fault="candidate",
        ) from error


def record(
    golden: Recording,
    path: Path,
    factory: Factory,
    *,
    checkpoints: Path = GOLDEN_ROOT / "checkpoints",
    model: Path | None = None,
    taps: Sequence[str] = (),
    digests: bool = True,
) -> None:
    """Run the implementation of `factory` on the case of `golden` and write its recording to `path`.

    Only taps that the golden has and that `taps` asks for (globs, none = every tap; see `tap_sets`) are written; all
    that the runner does not deliver are missing when it is judged, unless its `run.materialised` says so. Raises
    `ParityError` for a checkpoint that is missing or a tap without name.
    """
    refuse_weights(golden)
    case = golden.case
    directories = checkpoint_directories(case, checkpoints, model)
    with foreign_code(case):
        runner = factory(case, directories)
        if case.after:
            prior = read(Path(golden.source).parent.parent / f"{case.after}.pb")
            case_inputs = inputs_of(prior) | tables_of(prior)
            runner(prior.case, case_inputs, lambda name, step, value: None, lambda name: False)
    run = _run(runner, golden, taps)
    names = {t.info.name for t in golden if selected(t.info.name, taps)}
    if all(name.startswith(GIVEN) for name in names):
        raise no_such_tap(golden, taps)
    left_out = {t.info.name for t in golden} - names
    case_inputs = inputs_of(golden)
    with Writer(path, digests=digests, schema_minor=minor_of(case)) as writer:
        for t in golden:
            if t.info.name in case_inputs:
                writer.add(tensor(t.info.name, t.array, dtype=t.info.dtype, axes=t.info.axes, op=t.info.op))

        def tap(name: str, step: int, value: Value) -> None:
            if name in left_out:
                return
            array, dtype = to_numpy(value)
            known, tap_place = golden.get(name, step), place(name, case.config.num_hidden_layers)
            if tap_place is not None and len(tap_place.axes) == array.ndim:
                array = last_rows(array, tap_place, case.rows)
            info = known.info if known and len(known.info.axes) == array.ndim else pb.Tensor()
            writer.add(tensor(name, array, step=step, dtype=dtype, axes=info.axes, op=info.op, inputs=info.inputs))

        with foreign_code(case):
            runner(case, case_inputs | tables_of(golden), tap, names.__contains__)
        with foreign_code(case):
            held = held_parameters(getattr(runner, "parameters", {}), golden)
            for item in held.numbers:
                writer.add(item)
        writer.finish(case, provenance(getattr(runner, "producer", "foreign")), run, held.digests)


def no_such_tap(golden: Recording, taps: Sequence[str]) -> ParityError:
    """The error of globs that leave no tap of a golden to be recorded."""
    return ParityError(
        f"--taps {' '.join(taps)}",
        "the golden has no such tap, so there would be nothing to compare",
        expected="globs over the taps that qwen3-parity show prints",
        got="no match",
        next_step=f"qwen3-parity show {golden.source}",
    )


def _run(runner: Runner, golden: Recording, taps: Sequence[str]) -> pb.Run:
    """What the recording says of its run: the golden's patterns that the runner shows and `taps` asks for."""
    said = getattr(runner, "run", None) or pb.Run()
    known, shown = known_patterns(golden), set[str]()
    for entry in said.materialised or golden.run.materialised:
        patterns = patterns_of(entry, known)
        if not patterns:
            raise ParityError(
                f"run.materialised: {entry!a}",
                "the implementation declares a tap that nothing has",
                expected=f"a pattern of taps.textproto, or a glob over them; the nearest is {nearest(entry, known)}",
                got=entry,
                next_step="correct the name; no recording was written",
                fault="candidate",
            )
        shown.update(patterns)
    declared = [pattern for pattern in golden.run.materialised if pattern in shown and selected(pattern, taps)]
    arithmetic = said.arithmetic or golden.run.arithmetic
    return pb.Run(
        arithmetic=arithmetic,
        backend=said.backend or pb.FOREIGN,
        materialised=declared,
        golden_tables=said.golden_tables,
    )
