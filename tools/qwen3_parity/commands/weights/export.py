"""The command that writes a checkpoint, or a tokenizer alone, as protobuf messages, for ports: weights export."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from qwen3_golden.wire import MAX_FILE_BYTES
from qwen3_parity.commands import DIRECTORY, examples, model_option, output_options
from qwen3_parity.report.output import Output
from qwen3_reference.versions import refuse_unsupported

FILE = click.Path(path_type=Path)


@click.command(
    epilog=examples(
        "qwen3-parity weights export --model ./Qwen3-0.6B --out exported/",
        "qwen3-parity weights export --tokenizer ./Qwen3-0.6B --out tokenizer.pb",
    )
)
@model_option("of Qwen3 or Qwen2; --out is a new folder.")
@click.option(
    "--tokenizer",
    metavar="DIR_OR_HUB_ID",
    shell_complete=DIRECTORY,
    help="A Qwen3-type tokenizer alone: --out is a file.",
)
@click.option("--out", required=True, type=FILE, help="The folder, or the file, for example tokenizer.pb")
@click.option(
    "--part-bytes",
    type=click.IntRange(1, MAX_FILE_BYTES),
    help="With --model, the largest file; a larger tensor has one of its own  [default: 2^31 - 1]",
)
@output_options("Every part, or every added token, too.")
def export(model: str | None, tokenizer: str | None, out: Path, part_bytes: int | None, output: Output) -> None:
    """Write a checkpoint as protobuf files, its tokenizer included, or a tokenizer alone.

    The format stands in qwen3-parity show golden/README.md.
    """
    if (model is None) == (tokenizer is None):
        raise click.UsageError("give --model or --tokenizer, one of the two")
    refuse_unsupported()
    if model is not None:
        _export_model(model, out, part_bytes or MAX_FILE_BYTES, output)
    if part_bytes is not None:
        raise click.UsageError("--part-bytes is for --model; a tokenizer is one file")
    from qwen3_parity.checkpoints.export_tokenizer import export_tokenizer
    from qwen3_parity.recording.request import tokenizer_directory

    with output.progress("reading"):
        message = export_tokenizer(tokenizer_directory(str(tokenizer)), out)
    counts = {"tokens": len(message.token), "merges": len(message.merge), "added_tokens": len(message.added_token)}
    size = out.stat().st_size
    said = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items())
    line = f"{out}: {said}, {size:,} bytes"
    more = [f"{token.id} {token.content!a}" for token in message.added_token] if output.verbose else []
    output.finish(0, line, lambda: {"files": [str(out)], "bytes": size, **counts}, lambda: [*more, line])


def _export_model(model: str, out: Path, part_bytes: int, output: Output) -> NoReturn:
    from qwen3_parity.checkpoints.export_weights import export_weights
    from qwen3_parity.recording.request import network_directory

    directory = network_directory(model)
    label = directory.resolve().name if Path(model).is_dir() else model.rpartition("/")[2]
    with output.progress("reading") as update:
        exported = export_weights(directory, out, label, part_bytes, update)
    checkpoint = exported.case.checkpoint[0]
    line = f"{out}: {exported.tensors} tensors in {exported.parts} parts, {exported.bytes:,} bytes"
    files = sorted(map(str, out.iterdir()))
    said = [*exported.remarks, *[f"left out: {', '.join(exported.left_out)}"] * bool(exported.left_out)]
    said += files if output.verbose else []
    said += [line, f"checkpoint {checkpoint.name}, SHA-256 {checkpoint.sha256.hex()}"]
    data = {
        "files": files,
        "bytes": exported.bytes,
        "tensors": exported.tensors,
        "checkpoint": {"name": checkpoint.name, "sha256": checkpoint.sha256.hex()},
        "remarks": list(exported.remarks),
        "left_out": list(exported.left_out),
    }
    output.finish(0, line, lambda: data, lambda: said)
