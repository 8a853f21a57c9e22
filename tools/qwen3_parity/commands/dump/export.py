"""Write the tensors of a recording as other tools read them: dump export."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_parity.commands import CASE_OR_FILE, examples, output_options
from qwen3_parity.report.output import Output


@click.command(
    epilog=examples(
        "qwen3-parity dump export build/parity/decoder/plain.pb --out plain.safetensors",
        "qwen3-parity dump export decoder/plain --out golden.npz",
    ),
)
@click.argument("recording", shell_complete=CASE_OR_FILE)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A file that ends in .safetensors or .npz.")
@output_options("")
def export(recording: str, out: Path, output: Output) -> None:
    """Write every tensor of RECORDING, a file or a case's name, as safetensors or npz.

    A tensor is called by its tap, or step.tap where there are several steps. safetensors' metadata has case and axes.
    The way back is dump import.
    """
    from qwen3_golden import read
    from qwen3_parity.judge.golden_path import golden_path
    from qwen3_parity.recording.dumps.write_dump import write_dump

    if out.suffix not in (".safetensors", ".npz"):
        raise click.UsageError(f"--out ends in .safetensors or in .npz, and this is {str(out)!a}")
    with output.progress(f"writing {out}"):
        count = write_dump(read(golden_path(recording), digests=True), out)
    size = out.stat().st_size
    line = f"{out}: {count} tensors, {size:,} bytes"
    output.finish(0, line, lambda: {"files": [str(out)], "tensors": count, "bytes": size}, lambda: [line])
