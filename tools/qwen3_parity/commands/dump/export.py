"""Write the tensors of a recording as other tools read them: dump export."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import NoReturn

import click

from qwen3_parity.commands import CASE_OR_FILE, examples, output_options
from qwen3_parity.report.output import Output


@click.command(
    epilog=examples(
        "qwen3-parity dump export build/parity/decoder/plain.pb --out plain.safetensors",
        "qwen3-parity dump export '*' --out vectors/",
    ),
)
@click.argument("recording", shell_complete=CASE_OR_FILE)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A file that ends in .safetensors or .npz.")
@output_options("")
def export(recording: str, out: Path, output: Output) -> None:
    """Write every tensor of RECORDING, a file or a case's name, as safetensors or npz.

    A tensor is called by its tap, or step.tap where there are several steps. safetensors' metadata has case and axes.
    The way back is dump import. Cases by a glob, as '*', go into the folder --out, as a data set for people who have
    nothing of this package: safetensors, and an index in JSON lines with floors and digests.
    """
    from qwen3_golden import read
    from qwen3_parity.judge.golden_path import golden_path
    from qwen3_parity.recording.dumps.write_dump import write_dump

    if "*" in recording:
        vectors(recording, out, output)
    if out.suffix not in (".safetensors", ".npz"):
        raise click.UsageError(f"--out ends in .safetensors or in .npz, and this is {str(out)!a}")
    with output.progress(f"writing {out}"):
        count = write_dump(read(golden_path(recording), digests=True), out)
    size = out.stat().st_size
    line = f"{out}: {count} tensors, {size:,} bytes"
    output.finish(0, line, lambda: {"files": [str(out)], "tensors": count, "bytes": size}, lambda: [line])


def vectors(glob: str, out: Path, output: Output) -> NoReturn:
    """Write the committed cases of a glob as a data set, and exit."""
    from qwen3_parity.judge.golden_path import case_names
    from qwen3_parity.recording.dumps.vectors import write_vectors

    names = fnmatch.filter(case_names(), glob)
    with output.progress(f"writing {out}"):
        files = write_vectors(names, out)
    size, rows = sum(file.stat().st_size for file in files), sum(file.suffix == ".jsonl" for file in files)
    tensors = sum(len(file.read_bytes().splitlines()) for file in (out / "vectors").glob("*.jsonl"))
    line = f"{out}: {tensors:,} tensors in {len(files)} files, {rows} of them an index, {size:,} bytes"
    data = {"files": list(map(str, files)), "tensors": tensors, "bytes": size}
    output.finish(0, line, lambda: data, lambda: [line])
