"""Make a recording of a dump that is there already: import-dump."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from qwen3_parity.commands import CASE_OR_FILE, examples

_SHOWN = 12


@click.command(
    "import-dump",
    epilog=examples(
        "qwen3-parity import-dump decoder/plain my_dump.safetensors",
        "qwen3-parity import-dump decoder/plain dumps/ --names names.toml",
    ),
)
@click.argument("golden", shell_complete=CASE_OR_FILE)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--names", metavar="FILE", help="The name map, as TOML, or llama.cpp  [default: Hugging Face's names]")
@click.option("--out", type=click.Path(path_type=Path), help="The recording's file  [default: build/parity/CASE.pb]")
def import_dump(golden: str, dump: Path, names: str | None, out: Path | None) -> None:
    """Make a recording of DUMP, tensors that were written on the inputs of GOLDEN (a file or a case's name).

    DUMP is a .safetensors or .npz, a folder of .safetensors or .npy, of SGLang's .pt, or of transformers' model
    debugger. Names of Hugging Face's modules, or of taps, need no map. What has no tap, no tensor or another shape is
    said. Nothing is unpickled.
    """
    from qwen3_parity.recording.case import golden as case_of
    from qwen3_parity.recording.dumps.dump import shown
    from qwen3_parity.recording.dumps.import_dump import import_dump as make

    made = make(dump, case_of(golden), names, out)
    forwards = f"{len(made.forwards)} forward{'s' if len(made.forwards) > 1 else ''}"
    click.echo(f"{made.path}: {made.tensors} tensors from {made.arrays} arrays ({made.kind}), {forwards}")
    likes = ((shown(name), f"like {like}" if like else "like no tap") for name, like in made.unmatched.items())
    _listed("names that mean no tap", (f"{name}: {like}" for name, like in likes))
    _listed("another shape", (f"{one.name}: {one.got}, expected {one.expected}" for one in made.misfits))
    _listed("taps without a tensor", made.without)
    click.echo(f"next: qwen3-parity check {golden} {made.path}")


def _listed(title: str, lines: Iterable[str]) -> None:
    every = list(lines)
    if every:
        click.echo(f"{title}: {len(every)}")
    for line in every[:_SHOWN]:
        click.echo(f"  {line}")
    if len(every) > _SHOWN:
        click.echo(f"  and {len(every) - _SHOWN} more")
