"""From a case, or a user's request, to a golden file: run Hugging Face, measure the floors, write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from qwen3_golden import (
    Array,
    Tensor,
    Writer,
    last_rows,
    minor_of,
    pattern_of,
    pb,
    place,
    read,
    selected,
    table,
    tensor,
    to_float32,
)
from qwen3_reference.cases import CaseDefinition, case, inputs
from qwen3_reference.floors import Key, measure
from qwen3_reference.models import Reference, load_reference
from qwen3_reference.provenance import provenance
from qwen3_reference.run import Inputs, generate_greedy, run_reference
from qwen3_reference.softmax_check import check_softmax
from qwen3_reference.torch_tensors import DTYPES, to_numpy
from qwen3_reference.weights import Weights, checkpoint_message, load_weights, model_config, parameters

Progress = Callable[[str], None]
_TORCH = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_ARITHMETIC = {pb.F32: pb.ARITHMETIC_F32, pb.BF16: pb.ARITHMETIC_BF16, pb.F16: pb.ARITHMETIC_F16}
_ALWAYS = ("generated_ids",)
_TABLES = ("position_ids", "inv_freq", "cos", "sin")


def _silent(_stage: str) -> None:
    pass


class _Recorder:
    """Writes taps as they come, keeps the RoPE tables (floors need them even when nobody asked for them)."""

    def __init__(self, writer: Writer, message: pb.Case, progress: Progress) -> None:
        self.writer = writer
        self.message = message
        self.progress = progress
        self.tables: dict[Key, Array] = {}
        self.names: dict[str, None] = {}

    def wanted(self, name: str) -> bool:
        return selected(name, self.message.taps) or name.endswith(_TABLES)

    def add(self, step: int, name: str, value: torch.Tensor | Array) -> None:
        array, dtype = to_numpy(value)
        if name.endswith(_TABLES) and not name.startswith("input."):
            self.tables[name, step] = to_float32(array) if dtype == pb.BF16 else array
        if name in _ALWAYS or name.startswith("input.") or selected(name, self.message.taps):
            known = place(name, self.message.config.num_hidden_layers)
            assert known is not None, name
            self.names[name] = None
            array = last_rows(array, known, self.message.rows)
            self.writer.add(tensor(name, array, step=step, dtype=dtype, axes=known.axes, op=known.op))
        if name.endswith(".output"):
            self.progress(f"step {step}: {name}")

    def name_inputs(self) -> None:
        """Write down what each tap was computed from, once it is known what was recorded."""
        config = self.message.config
        for info in self.writer.infos:
            known = place(info.name, config.num_hidden_layers)
            if known is not None:
                info.inputs[:] = known.inputs_in(self.names, config)


def _run_message(names: Iterable[str], dtype: pb.DType) -> pb.Run:
    """Eager attention in `dtype`; the patterns delivered, in the table's order."""
    delivered = {pattern_of(name) for name in names}
    patterns = [row.pattern for row in table() if row.pattern in delivered]
    return pb.Run(arithmetic=_ARITHMETIC[dtype], backend=pb.EAGER, materialised=patterns)


def _record(
    reference: Reference,
    weights: Weights,
    given: Inputs,
    message: pb.Case,
    seed: int,
    path: Path,
    floors: bool,
    progress: Progress,
) -> None:
    """Run, check what was recorded, measure, write `path`; what is between lives in a temporary folder beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    origin = provenance("qwen3_reference", seed)
    with TemporaryDirectory(dir=path.parent, prefix=".recording-") as folder:
        first = Path(folder) / "run.pb"
        with Writer(first, schema_minor=minor_of(message)) as writer:
            recorder = _Recorder(writer, message, progress)
            for name, array in given.items():
                recorder.add(0, name, array)
            run_reference(reference, given, message.steps, recorder.add, recorder.wanted)
            if message.max_new_tokens:
                progress("generation")
                ids, message.smallest_margin = generate_greedy(
                    reference, given, message.steps[0], message.max_new_tokens
                )
                recorder.add(0, "generated_ids", ids)
            run = _run_message(recorder.names, weights.dtype)
            progress("digests of the parameters")
            held = parameters(weights)
            recorder.name_inputs()
            writer.finish(message, origin, run, held)
        recording = read(first)
        check_softmax(recording)
        if not floors:
            first.replace(path)
            return
        found = measure(recording, weights, recorder.tables, Path(folder) / "truth.pb", progress)
        with Writer(path, schema_minor=minor_of(message)) as writer:
            for item in recording:
                info = pb.Tensor.FromString(item.info.SerializeToString())
                if item.key in found:
                    info.floor.CopyFrom(found[item.key])
                writer.add(Tensor(info, item.array))
            writer.finish(message, origin, run, held)


def record_request(
    encoder_directory: str | Path | None,
    decoder_directory: str | Path | None,
    inputs: Inputs,
    steps: Sequence[int],
    path: str | Path,
    *,
    taps: Sequence[str] = (),
    rows: int = 0,
    dtype: torch.dtype = torch.float32,
    floors: bool = True,
    rotate_encoder_keys: bool = True,
    max_new_tokens: int = 0,
    name: str = "",
    description: str = "",
    labels: Sequence[str] = (),
    progress: Progress = _silent,
) -> None:
    """Record Hugging Face on somebody's own checkpoint and inputs; a Qwen3 checkpoint may be both roles at once.

    `inputs` are `input.*` arrays by name, int64 ids and positions and bool masks `[batch, length]`; `steps` the
    decoder's query lengths, empty without a decoder; `taps` globs, empty = every tap; `rows` how many of
    the last query positions each step keeps, 0 = all; `labels` names for the
    checkpoints in messages, the folders' names by default. `floors=False` leaves the noise floors out: they cost two
    runs in NumPy. `progress` is told each stage in words. Raises `ParityError` for a checkpoint that cannot be used.
    """
    code = DTYPES[dtype]
    given = [(role, d) for role, d in (("encoder", encoder_directory), ("decoder", decoder_directory)) if d is not None]
    weights = load_weights(encoder_directory, decoder_directory, code)
    modes = {("encoder",): pb.ENCODER, ("decoder",): pb.CAUSAL, ("encoder", "decoder"): pb.ENCODER_DECODER}
    names = labels or [Path(directory).resolve().name for _, directory in given]
    message = pb.Case(
        name=name or f"capture/{Path(path).stem}",
        mode=modes[tuple(role for role, _ in given)],
        config=model_config(given[-1][1], rotate_encoder_keys=rotate_encoder_keys),
        checkpoint=[checkpoint_message(role, d, label) for (role, d), label in zip(given, names, strict=True)],
        steps=steps,
        description=description,
        max_new_tokens=max_new_tokens,
        taps=taps,
        rows=rows,
    )
    progress("loading")
    reference = load_reference(
        encoder_directory, decoder_directory, dtype=dtype, rotate_encoder_keys=rotate_encoder_keys
    )
    _record(reference, weights, inputs, message, 0, Path(path), floors, progress)


def record(definition: CaseDefinition, checkpoints: Path, path: Path) -> None:
    """Record one of the reference's cases from the checkpoints in `checkpoints`, with floors."""
    dtype = _TORCH[definition.dtype]
    encoder = checkpoints / definition.encoder if definition.encoder else None
    decoder = checkpoints / definition.decoder if definition.decoder else None
    reference = load_reference(encoder, decoder, dtype=dtype, rotate_encoder_keys=definition.rotate_encoder_keys)
    main = decoder if decoder is not None else encoder
    assert main is not None
    config = model_config(main, rotate_encoder_keys=definition.rotate_encoder_keys)
    if definition.after:
        before = case(definition.after)
        run_reference(reference, inputs(before, config.vocab_size), before.steps, lambda *_: None, lambda _: False)
    roles = (("encoder", encoder), ("decoder", decoder))
    message = pb.Case(
        name=definition.name,
        tier=definition.tier,
        mode=definition.mode,
        config=config,
        checkpoint=[checkpoint_message(role, d, d.name) for role, d in roles if d is not None],
        steps=definition.steps,
        after=definition.after,
        exposes=definition.exposes,
        description=definition.description,
        max_new_tokens=definition.max_new_tokens,
        taps=definition.taps,
    )
    weights = load_weights(encoder, decoder, DTYPES[dtype])
    given = inputs(definition, config.vocab_size)
    _record(reference, weights, given, message, definition.seed, path, True, _silent)
