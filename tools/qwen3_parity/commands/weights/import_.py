"""The command that makes a Hugging Face directory of an exported checkpoint: weights import."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_parity.commands import examples, output_options
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)


@click.command("import", epilog=examples("qwen3-parity weights import exported/ --out Qwen3-0.6B-again/"))
@click.argument("directory", type=FILE)
@click.option("--out", required=True, type=FILE, help="The new folder.")
@output_options("Every file on a line of its own.")
def import_(directory: Path, out: Path, output: Output) -> None:
    """Make the Hugging Face directory again that DIRECTORY was exported from, byte for byte, and verify everything."""
    from qwen3_parity.checkpoints.import_weights import import_weights

    with output.progress("reading") as update:
        imported = import_weights(directory, out, update)
    line = f"{out}: {', '.join(imported.files)}; {imported.tensors} tensors verified"
    digest = imported.checkpoint.sha256.hex()
    said = [*imported.remarks, *(str(out / name) for name in imported.files if output.verbose)]
    said += [line, f"checkpoint {imported.checkpoint.name}, SHA-256 {digest}"]
    data = {
        "files": [str(out / name) for name in imported.files],
        "tensors": imported.tensors,
        "checkpoint": {"name": imported.checkpoint.name, "sha256": digest},
        "remarks": list(imported.remarks),
    }
    output.finish(0, line, lambda: data, lambda: said)
