"""Make a recording of a dump that is there already: dump import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from qwen3_golden import pb
from qwen3_parity.commands import CASE_OR_FILE, examples, output_options
from qwen3_parity.judge.arithmetic import BY_NAME
from qwen3_parity.judge.next_command import command
from qwen3_parity.report.next_step import after_recording
from qwen3_parity.report.output import Output

_SHOWN = 12


@click.command(
    "import",
    epilog=examples(
        "qwen3-parity dump import decoder/plain my_dump.safetensors",
        "qwen3-parity dump import decoder/plain dumps/ --names names.toml",
    ),
)
@click.argument("golden", shell_complete=CASE_OR_FILE)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--names", metavar="FILE", help="The name map, as TOML, or llama.cpp  [default: Hugging Face's names]")
@click.option(
    "--arithmetic",
    type=click.Choice(list(BY_NAME)),
    help="What the run computed in, where the dump is stored wider  [default: what its numbers are]",
)
@click.option("--out", type=click.Path(path_type=Path), help="The recording's file  [default: build/parity/CASE.pb]")
@output_options("Every name and tap that was left out, not the first twelve.")
def import_(
    golden: str, dump: Path, names: str | None, arithmetic: str | None, out: Path | None, output: Output
) -> None:
    """Make a recording of DUMP, tensors that were written on the inputs of GOLDEN (a file or a case's name).

    DUMP is a .safetensors or .npz, the table of raw files, or a folder of .safetensors, of .npy, of .bin with a table,
    of SGLang's .pt, or of transformers' model debugger. Names of Hugging Face's modules, or of taps, need no map. What
    has no tap, no tensor or another shape is said. Nothing is unpickled.
    """
    from qwen3_parity.recording.case import golden as case_of
    from qwen3_parity.recording.dumps.dump import shown
    from qwen3_parity.recording.dumps.import_dump import import_dump as make

    with output.progress(f"reading {dump}"):
        how = BY_NAME[arithmetic] if arithmetic else pb.ARITHMETIC_UNSPECIFIED
        imported = make(dump, case_of(golden), names, out, how)
    next_step = command("check", golden, imported.path)
    forwards = f"{len(imported.forwards)} forward{'s' if len(imported.forwards) > 1 else ''}"
    line = f"{imported.path}: {imported.tensors} tensors from {imported.arrays} arrays ({imported.kind}), {forwards}"
    unmatched = [f"{shown(name)}: like {like or 'no tap'}" for name, like in imported.unmatched.items()]
    misfits = [f"{misfit.name}: {misfit.got}, expected {misfit.expected}" for misfit in imported.misfits]
    most = None if output.verbose else _SHOWN
    recognised = next((word for word, code in BY_NAME.items() if code == imported.recognised), None)
    said = [
        line,
        *[f"stored as float32, all of them numbers of {recognised}: recorded as such"] * bool(recognised),
        *_listed("names that mean no tap", unmatched, most),
        *_listed("another shape", misfits, most),
        *_listed("taps without a tensor", imported.without, most),
        f"next: {next_step}",
    ]
    data = {
        "recording": str(imported.path),
        "format": imported.kind,
        "arrays": imported.arrays,
        "tensors": imported.tensors,
        "forwards": len(imported.forwards),
        "recognised": recognised,
        "unmatched": [{"name": name, "like": like} for name, like in imported.unmatched.items()],
        "other_shapes": [misfit._asdict() for misfit in imported.misfits],
        "without": list(imported.without),
        "next": after_recording(golden, imported.path),
    }
    output.finish(0, line, lambda: data, lambda: said)


def _listed(title: str, lines: Sequence[str], most: int | None) -> list[str]:
    left = len(lines) - len(lines[:most])
    more = [f"  and {left} more, with -v"] * bool(left)
    return [f"{title}: {len(lines)}", *(f"  {line}" for line in lines[:most]), *more] if lines else []
