"""The command that makes a Hugging Face directory of an exported checkpoint: import."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_parity.report.progress import progress

FILE = click.Path(path_type=Path)


@click.command("import")
@click.argument("directory", type=FILE)
@click.option("--out", required=True, type=FILE, help="The new folder.")
def import_(directory: Path, out: Path) -> None:
    """Make the Hugging Face directory again that DIRECTORY was exported from, byte for byte, and verify everything."""
    from qwen3_parity.checkpoints.import_weights import import_weights

    with progress("reading") as update:
        made = import_weights(directory, out, update)
    for line in made.remarks:
        click.echo(line)
    click.echo(f"{out}: {', '.join(made.files)}; {made.tensors} tensors verified")
    click.echo(f"checkpoint {made.checkpoint.name}, SHA-256 {made.checkpoint.sha256.hex()}")
