"""The command that writes a tokenizer as one message, for ports: export."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)


@click.command()
@click.option("--tokenizer", required=True, metavar="DIR_OR_HUB_ID", help="A Qwen3-type tokenizer.")
@click.option("--out", required=True, type=FILE, help="The file, for example tokenizer.pb")
def export(tokenizer: str, out: Path) -> None:
    """Write a tokenizer as one protobuf message `Tokenizer` (see golden.proto), Unicode tables included."""
    from qwen3_parity.export_tokenizer import export_tokenizer
    from qwen3_parity.request import TOKENIZER_FILES, model_directory

    message = export_tokenizer(model_directory(tokenizer, TOKENIZER_FILES), out)
    click.echo(
        f"{out}: {len(message.token)} tokens, {len(message.merge)} merges, {len(message.added_token)} added tokens, "
        f"{out.stat().st_size:,} bytes"
    )
