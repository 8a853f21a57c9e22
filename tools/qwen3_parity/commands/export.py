"""The command that writes a checkpoint, or a tokenizer alone, as protobuf messages, for ports: export."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden.wire import MAX_FILE_BYTES
from qwen3_parity.report.progress import progress

FILE = click.Path(path_type=Path)


@click.command()
@click.option("--model", metavar="DIR_OR_HUB_ID", help="A Qwen3 (or Qwen2) checkpoint: --out is a new folder.")
@click.option("--tokenizer", metavar="DIR_OR_HUB_ID", help="A Qwen3-type tokenizer alone: --out is a file.")
@click.option("--out", required=True, type=FILE, help="The folder, or the file, for example tokenizer.pb")
@click.option(
    "--part-bytes",
    type=click.IntRange(1, MAX_FILE_BYTES),
    help="With --model, the largest file; a larger tensor has one of its own  [default: 2^31 - 1]",
)
def export(model: str | None, tokenizer: str | None, out: Path, part_bytes: int | None) -> None:
    """Write a checkpoint as protobuf files (see golden/README.md), its tokenizer included, or a tokenizer alone."""
    if (model is None) == (tokenizer is None):
        raise click.UsageError("give --model or --tokenizer, one of the two")
    if model is not None:
        _export_model(model, out, part_bytes or MAX_FILE_BYTES)
        return
    if part_bytes is not None:
        raise click.UsageError("--part-bytes is for --model; a tokenizer is one file")
    from qwen3_parity.checkpoints.export_tokenizer import export_tokenizer
    from qwen3_parity.recording.request import TOKENIZER_FILES, model_directory

    message = export_tokenizer(model_directory(str(tokenizer), TOKENIZER_FILES), out)
    click.echo(
        f"{out}: {len(message.token)} tokens, {len(message.merge)} merges, {len(message.added_token)} added tokens, "
        f"{out.stat().st_size:,} bytes"
    )


def _export_model(model: str, out: Path, part_bytes: int) -> None:
    from qwen3_parity.checkpoints.export_weights import export_weights
    from qwen3_parity.recording.request import network_directory

    directory = network_directory(model)
    label = directory.resolve().name if Path(model).is_dir() else model.rpartition("/")[2]
    with progress("reading") as update:
        made = export_weights(directory, out, label, part_bytes, update)
    for line in made.remarks:
        click.echo(line)
    if made.left_out:
        click.echo(f"left out: {', '.join(made.left_out)}")
    checkpoint = made.case.checkpoint[0]
    click.echo(f"{out}: {made.tensors} tensors in {made.parts} parts, {made.bytes:,} bytes")
    click.echo(f"checkpoint {checkpoint.name}, SHA-256 {checkpoint.sha256.hex()}")
