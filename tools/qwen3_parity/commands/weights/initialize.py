"""The command that makes an encoder–decoder of a Qwen3 checkpoint: weights initialize."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_golden.whole_folder import whole_folder
from qwen3_parity.checkpoints.foreign import refuse_foreign
from qwen3_parity.commands import examples, model_option, output_options
from qwen3_parity.report.output import Output
from qwen3_reference.versions import refuse_unsupported

if TYPE_CHECKING:
    from qwen3_encdec import Qwen3ForSeq2SeqLM

INFO = "initialization_info.json"
DTYPES = ("float32", "float16", "bfloat16")
_SHARD = "2GB"
_KINDS = ("qwen3", "qwen2")
"""What our encoder–decoder can be initialised from."""
_TOKENIZERS = ("tokenizer.json", "vocab.json")


@click.command(epilog=examples("qwen3-parity weights initialize --model ./Qwen3-0.6B --out encoder-decoder --verify"))
@model_option("of Qwen3 or Qwen2.", default="Qwen/Qwen3-0.6B", show_default=True)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new folder for the model.")
@click.option("--num-sentinel-tokens", type=click.IntRange(min=0), default=100, show_default=True)
@click.option("--verify", is_flag=True, help="Read the model back and compare every tensor with the checkpoint.")
@click.option("--device", default="cpu", show_default=True, help="Where the model is put together.")
@click.option("--dtype", type=click.Choice(DTYPES), help="What the weights are cast to  [default: as they are stored]")
@output_options("")
def initialize(
    model: str,
    out: Path,
    num_sentinel_tokens: int,
    verify: bool,
    device: str,
    dtype: str | None,
    output: Output,
) -> None:
    """Make an encoder–decoder of a Qwen3 (or Qwen2) checkpoint, with its tokenizer and sentinel tokens.

    The folder gets the model, the tokenizer where the checkpoint has one, and initialization_info.json; it appears
    whole or not at all. When a check of --verify fails the faults are listed, the exit code is 1 and there is no
    folder. A folder that was initialised before is judged by --verify as it stands, against --model: nothing is
    made, and only the result is written, as verification_passed.
    """
    refuse_unsupported()
    from qwen3_encdec.weights.files import read_json

    faults: list[Any] = []
    with suppress(_FaultyError), _bars(output) as progress:
        if verify and (out / INFO).is_file():
            with _refused(model):
                info = read_json(out / INFO)
            faults = _faults(out, model, progress)
            with _refused(str(out)):
                _write_info(out, info | {"verification_passed": not faults})
        else:
            with whole_folder(out) as folder:
                info = _make(folder, model, num_sentinel_tokens, device, dtype, progress)
                faults = _faults(folder, model, progress) if verify else []
                if faults:
                    raise _FaultyError
                _write_info(folder, info | {"verification_passed": True if verify else None})
    line = f"{out}: {'verified, every tensor' if verify else 'not verified'}"
    if faults:
        failed = sorted({fault.check for fault in faults})
        line = f"{out}: {len(faults)} faults; failed: {', '.join(failed)}"
        for text in (*(str(fault) for fault in faults if not output.quiet), line):
            click.echo(text, err=True)
    data = {
        "folder": str(out),
        "verified": not faults if verify else None,
        "faults": [{"check": fault.check, "says": str(fault)} for fault in faults],
    }
    output.finish(1 if faults else 0, line, lambda: data, lambda: [] if faults else [line])


class _FaultyError(Exception):
    """The model is not what it was made of, and its folder is not kept."""


def _make(
    folder: Path, source: str, num_sentinel_tokens: int, device: str, dtype: str | None, progress: Any
) -> dict[str, Any]:
    """Write the model and its tokenizer; returns what there is to say of them."""
    import torch
    from safetensors import SafetensorError

    from qwen3_encdec import add_sentinels, check_agreement, initialize_from_qwen3
    from qwen3_encdec.weights.files import checkpoint_directory

    refuse_foreign(Path(source), _KINDS)
    with _refused(source):
        directory = checkpoint_directory(source)
    refuse_foreign(directory, _KINDS)
    with _refused(source):
        torch_dtype = getattr(torch, dtype) if dtype else None
        model = initialize_from_qwen3(directory, num_sentinel_tokens, device, dtype=torch_dtype, progress=progress)
        tokenizer = None
        if any((directory / name).is_file() for name in _TOKENIZERS):
            tokenizer = add_sentinels(directory, model.config.sentinel_start, num_sentinel_tokens)
            check_agreement(tokenizer, model.config, model)
    progress(0, 1, "saving the model")
    try:
        model.save_pretrained(folder, max_shard_size=_SHARD)
    except SafetensorError as error:  # a disk that does not take it, in the library's words
        raise OSError(str(error)) from error
    if tokenizer:
        tokenizer.save_pretrained(folder)
    progress(1, 1, "saving the model")
    return {
        "source_model": source,
        "num_sentinel_tokens": num_sentinel_tokens,
        "dtype": str(model.dtype).removeprefix("torch."),
    }


def _faults(folder: Path, source: str, progress: Any) -> list[Any]:
    """What is wrong with the model in a folder, as its users get it: loaded from disk."""
    from qwen3_encdec.weights.verification import weight_faults

    gc.collect()  # the model that was saved; two would not fit where one does
    with _refused(source):
        return weight_faults(_load(folder), source, progress=progress)


def _load(folder: Path) -> Qwen3ForSeq2SeqLM:
    from qwen3_encdec import Qwen3ForSeq2SeqLM

    try:
        model: Qwen3ForSeq2SeqLM = Qwen3ForSeq2SeqLM.from_pretrained(folder, dtype="auto", use_safetensors=True)
    except RuntimeError as error:  # shapes that are not those of its config
        raise ValueError(f"{folder}: it cannot be loaded ({error})") from error
    return model


def _write_info(folder: Path, info: dict[str, Any]) -> None:
    write_whole(folder / INFO, json.dumps(info, indent=2) + "\n")


@contextmanager
def _refused(source: str) -> Iterator[None]:
    """`ParityError` in place of what the implementation and the libraries raise for input that cannot be read."""
    from safetensors import SafetensorError

    try:
        yield
    except (ValueError, OSError, SafetensorError) as error:
        raise ParityError(
            source,
            "no encoder–decoder can be made of this, or read back",
            expected="a whole Qwen3 or Qwen2 checkpoint: config.json, safetensors, and a tokenizer if any",
            got=str(error),
            next_step="mend or download the checkpoint again; nothing was written",
        ) from error


@contextmanager
def _bars(output: Output) -> Iterator[Callable[[int, int, str], None]]:
    """What is done to the tensors – reading, mapping, saving, verifying – and none of transformers' own bars."""
    from transformers.utils import logging

    theirs = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with output.progress("reading", "tensors") as update:

            def show(done: int, total: int, activity: str) -> None:
                update(activity)
                update.count(done, total)

            yield show
    finally:
        if theirs:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
