"""Record Hugging Face on a user's checkpoint: capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from qwen3_golden import ParityError, Recording, read
from qwen3_golden.rules import is_plain_name
from qwen3_parity.commands import DIRECTORY, FILE, examples, model_option, output_options, tap_names
from qwen3_parity.judge.next_command import command
from qwen3_parity.judge.spoken import as_filed
from qwen3_parity.report.output import Output
from qwen3_reference.versions import refuse_unsupported

_REQUEST = "request.pb"
DTYPES = ("float32", "bfloat16", "float16")


@click.command(
    epilog=examples(
        "qwen3-parity capture --model ./Qwen3-0.6B --target 'The capital of France' --generate 8 --out build/mine.pb",
        "qwen3-parity capture --model ./gpt-oss --text 'The capital of France is' --steps 2 --out build/gpt-oss.pb",
    )
)
@model_option("of Qwen3 or Qwen2 for --source and --target, of any transformers model for --text and --ids.")
@click.option("--out", required=True, type=FILE, help="FILE.pb, or the folder for request.pb; of --tiny a folder.")
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="What any model reads; once for each row.")
@click.option("--ids", metavar="1,2,3;4,5", help="The same as ids.")
@click.option("--steps", type=click.IntRange(min=0), default=0, help="Of --text or --ids: N tokens go one by one.")
@click.option("--padding", type=click.Choice(("left", "right")), help="Of --text or --ids  [default: left of decoders]")
@click.option(
    "--pool", type=click.Choice(("last",)), help="Embeddings of --text or --ids: the last token's, normalised."
)
@click.option(
    "--dimensions", type=click.IntRange(min=1), help="Of --pool: the first N, normalised again  [default: all]"
)
@click.option(
    "--score", metavar="NO,YES", help="How probable the second of two tokens, or ids, is behind --text or --ids."
)
@click.option(
    "--tiny", metavar="FAMILY", help="A loud tiny checkpoint of a model_type, or of a config.json, with its golden."
)
@click.option("--source", "sources", multiple=True, metavar="TEXT", help="What the encoder reads; once for each row.")
@click.option("--target", "targets", multiple=True, metavar="TEXT", help="What the decoder is fed; once for each row.")
@click.option("--source-ids", metavar="1,2,3;4,5", help="The same as ids.")
@click.option("--target-ids", metavar="1,2,3;4,5")
@click.option(
    "--tokenizer",
    metavar="DIR_OR_HUB_ID",
    shell_complete=DIRECTORY,
    help="Where the tokenizer is  [default: the checkpoint]",
)
@click.option("--prefill", type=int, help="Decoder tokens of the first step; the others follow one by one.")
@click.option("--generate", type=click.IntRange(min=0), default=0, help="Choose N tokens greedily behind the target.")
@click.option(
    "--taps", multiple=True, metavar="GLOB", shell_complete=tap_names(), help="Only these taps  [default: all]"
)
@click.option("--rows", type=click.IntRange(min=0), default=0, help="Only the last N positions  [default: all]")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True)
@click.option("--unrotated", is_flag=True, help="Leave the encoder's keys unrotated, as T5Gemma 2 does.")
@click.option("--floors/--no-floors", default=True, help="Measure the noise floors: four more runs, in NumPy.")
@click.option("--stream/--no-stream", default=None, help="Leave the weights on the disk  [default: if memory is short]")
@click.option("--yes", is_flag=True, help="Do not ask before a recording of more than 1 GB.")
@output_options("The name of every tap, too.")
@click.pass_context
def capture(
    ctx: click.Context,
    model: str | None,
    out: Path,
    texts: tuple[str, ...],
    ids: str | None,
    steps: int,
    padding: str | None,
    pool: str | None,
    dimensions: int | None,
    score: str | None,
    tiny: str | None,
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    source_ids: str | None,
    target_ids: str | None,
    tokenizer: str | None,
    prefill: int | None,
    generate: int,
    taps: tuple[str, ...],
    rows: int,
    dtype: str,
    unrotated: bool,
    floors: bool,
    stream: bool | None,
    yes: bool,
    output: Output,
) -> None:
    """Record Hugging Face's own model on your checkpoint and your texts: a golden of your own.

    With a source alone the encoder runs, with a target alone a causal Qwen3, with both the merged decoder. A capture
    that was interrupted is gone on with by the same command. Under torchrun the processes share the model. With --text,
    --ids or --tiny it is any model of transformers, whose golden carries the graph of its ops.

    A reranker's template is part of its text: for Qwen3-Reranker a --text is the whole prompt, from its system message
    with the instruction, query and document in it, to the empty <think> block behind which it answers no or yes.
    """
    refuse_unsupported()
    if texts or ids or tiny:
        _refuse_together(ctx, tiny=bool(tiny))
        around = {"padding": padding or "", "pool": bool(pool), "dimensions": dimensions or 0, "score": score or ""}
        path = _graph(model, out, texts, ids, steps, tiny, tokenizer, dtype, floors, around, output)
        _finish(read(path), model or str(path.parent), "graph", command("show", path), output)
        return
    _refuse_of_text(ctx.params)
    if model is None:
        raise click.UsageError("give --model, or --tiny")
    if not any((sources, targets, source_ids, target_ids)):
        raise click.UsageError("give what is read: --text or --ids of any model, --source or --target of Qwen3's kind")
    import torch

    from qwen3_parity.judge.match import missing_results
    from qwen3_parity.recording import capture as capturing
    from qwen3_parity.recording.request import model_directory, network_directory
    from qwen3_reference.capture.sharded_processes import distributed, is_main, processes

    _refuse_sides(ctx.params)
    with distributed():
        _refuse_shared(processes(), stream=bool(stream), generate=bool(generate))
        directory = network_directory(model)
        words = model_directory(tokenizer) if tokenizer else directory
        plan = capturing.plan(
            directory,
            _rows(sources, source_ids, words),
            _rows(targets, target_ids, words),
            prefill=prefill,
            generate=generate,
            taps=as_filed(taps),
            rows=rows,
            dtype=getattr(torch, dtype),
            rotate_encoder_keys=not unrotated,
        )
        path, mode, lengths = _file(out), capturing.mode_name(plan), list(plan.lengths.steps)
        output.say(f"{mode} of {model}, steps {lengths}: {plan.bytes:,} bytes to {path}")
        written = capturing.kept_bytes(path)
        capturing.refuse_too_large(plan, path.parent, floors=floors, written=written)
        if not yes and is_main():
            _ask_whether_large(plan.bytes, output)
        if written:
            output.say(f"a capture of this name was interrupted: {written:,} bytes of it are there to go on from")
        if stream is None:
            stream = processes() == 1 and capturing.is_large(plan)
        if stream:
            size = capturing.models_bytes(plan)
            output.say(f"the models have {size:,} bytes: streamed from the disk, layer by layer")
        with output.progress("loading", "layers") as update:
            capturing.capture(plan, path, floors=floors, stream=stream, progress=update, layers=update.count)
        if not is_main():
            return
    recorded = read(path)
    next_step, missing = command("record", path, "--model", model), missing_results(recorded)
    _finish(recorded, model, mode, next_step, output, steps=lengths, missing=missing)


def _rows(texts: Sequence[str], ids: str | None, tokenizer: Path) -> Sequence[Sequence[int]]:
    from qwen3_parity.recording.request import parse_ids, tokenize

    if ids:
        return parse_ids(ids)
    return tokenize(texts, tokenizer) if texts else []


def _refuse_of_text(params: Mapping[str, Any]) -> None:
    for option in ("steps", "padding", "pool", "dimensions", "score"):
        if params[option]:
            raise click.UsageError(f"--{option} goes with --text or --ids")


def _refuse_sides(params: Mapping[str, Any]) -> None:
    """Raise for source and target given twice, and for tokens that follow nothing."""
    if any(params[f"{side}s"] and params[f"{side}_ids"] for side in ("source", "target")):
        raise click.UsageError("give text or ids, not both")
    if params["generate"] and (params["prefill"] is not None or not (params["targets"] or params["target_ids"])):
        raise click.UsageError("--generate goes on behind a --target, which is fed at once: leave out --prefill")


def _file(out: Path) -> Path:
    """The recording's file; raises `ParityError` for one whose name cannot be a case's."""
    path = out if out.suffix == ".pb" else out / _REQUEST
    if not is_plain_name(path.stem):
        raise ParityError(
            f"--out {str(out)!a}",
            "this cannot be the name of a recording",
            expected="a folder, or a file whose name, without .pb, can be a case's: letters, digits, - and _",
            got=ascii(path.name),
            next_step="give another --out",
        )
    return path


def _refuse_shared(processes: int, *, stream: bool, generate: bool) -> None:
    """Raise `UsageError` for what several processes that share a model cannot do."""
    if stream and processes > 1:
        raise click.UsageError("a model is streamed or shared by processes, not both: leave out --stream")
    if generate and processes > 1:
        raise click.UsageError("tokens are chosen in one process: leave out --generate, or torchrun")


def _ask_whether_large(size: int, output: Output) -> None:
    if size <= 1 << 30:
        return
    if output.as_json or output.quiet:
        raise click.UsageError(f"{size:,} bytes: more than 1 GB needs --yes where nobody is asked")
    click.confirm("more than 1 GB; go on?", abort=True)


_EVERY_ROAD = {"model", "out", "texts", "ids", "steps", "tiny", "tokenizer", "dtype", "floors", "output"}
_EVERY_ROAD |= {"padding", "pool", "dimensions", "score"}
_OF_TINY = {"out", "tiny", "floors"}
_ANSWER = {"as_json", "quiet", "verbose"}


def _refuse_together(ctx: click.Context, *, tiny: bool) -> None:
    """Raise `UsageError` for options that were given and that this road does not take."""
    params = ctx.params
    if params["texts"] and params["ids"]:
        raise click.UsageError("give text or ids, not both")
    if not tiny and not params["model"]:
        raise click.UsageError("--text and --ids need --model")
    taken = (_OF_TINY if tiny else _EVERY_ROAD) | _ANSWER
    source = click.core.ParameterSource.COMMANDLINE
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if ctx.get_parameter_source(name) == source and name not in taken:
            road = (
                "--tiny: capture the checkpoint that it makes, with --model DIR --ids …" if tiny else "--text or --ids"
            )
            raise click.UsageError(f"{parameter.opts[0]} does not go with {road}")
    pool, score = params["pool"], params["score"]
    if (pool and score) or (params["dimensions"] and not pool):
        raise click.UsageError("give --pool or --score, not both" if score else "--dimensions goes with --pool")


def _graph(
    model: str | None,
    out: Path,
    texts: tuple[str, ...],
    ids: str | None,
    steps: int,
    tiny: str | None,
    tokenizer: str | None,
    dtype: str,
    floors: bool,
    around: Mapping[str, Any],
    output: Output,
) -> Path:
    """Capture by the model's own graph; the golden's path."""
    import torch

    from qwen3_parity.recording.any_model import capture_model
    from qwen3_parity.recording.request import parse_ids
    from qwen3_reference.graph.tiny import write_tiny

    with output.progress("running and exporting"):
        if tiny:
            return write_tiny(tiny, out, floors=floors)
        assert model is not None
        path = _file(out)
        rows = parse_ids(ids) if ids else list(texts)
        kind = getattr(torch, dtype)
        capture_model(model, path, rows, tokenizer=tokenizer, steps=steps, dtype=kind, floors=floors, **around)
    return path


def _finish(
    recorded: Recording,
    model: str,
    mode: str,
    next_step: str,
    output: Output,
    *,
    steps: Sequence[int] | None = None,
    missing: Sequence[str] = (),
) -> None:
    """Say what was recorded; `steps` are those that were asked for, where generation may have ended before."""
    path = Path(recorded.source)
    lines = [tensor.info.name for tensor in recorded] if output.verbose else []
    if missing:
        lines.append(f"a verdict by it is partial, exit code 1 unless --partial: it has no {', '.join(missing)}")
    data = {
        "recording": str(path),
        "model": model,
        "mode": mode,
        "steps": list(recorded.case.steps if steps is None else steps),
        "bytes": path.stat().st_size,
        "taps": len(recorded.tensors),
        "no_results": list(missing),
        "next_step": next_step,
    }
    output.finish(0, str(path), lambda: data, lambda: [*lines, f"next: {next_step}"])
