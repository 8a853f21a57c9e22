"""Record Hugging Face on a user's checkpoint: capture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from qwen3_parity.commands import DIRECTORY, examples, output_options, tap_names
from qwen3_parity.judge.next_command import command
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)
DTYPES = ("float32", "bfloat16", "float16")


@click.command(
    epilog=examples(
        "qwen3-parity capture --model ./Qwen3-0.6B --target 'The capital of France is' --generate 8 --out build/mine",
        "qwen3-parity capture --model ./gpt-oss --text 'The capital of France is' --steps 2 --out build/gpt-oss.pb",
    )
)
@click.option(
    "--model",
    metavar="DIR_OR_HUB_ID",
    shell_complete=DIRECTORY,
    help="A checkpoint: Qwen3 (or Qwen2) for --source and --target, any transformers model for --text and --ids.",
)
@click.option("--out", required=True, type=FILE, help="The folder for the recording, or FILE.pb for --text and --ids.")
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
@click.option("--name", default="request", show_default=True, help="The recording's file name.")
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
    name: str,
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
    """Record Hugging Face on your own checkpoint: source and target as text or ids.

    With a source alone the encoder runs, with a target alone a causal Qwen3, with both the merged decoder. A capture
    that was interrupted is gone on with by the same command. Under torchrun the processes share the model. With --text,
    --ids or --tiny it is any model of transformers, whose golden carries the graph of its ops.

    A reranker's template is part of its text: for Qwen3-Reranker a --text is the whole prompt, from its system message
    with the instruction, query and document in it, to the empty <think> block behind which it answers no or yes.
    """
    if texts or ids or tiny:
        _refuse_together(ctx, tiny=bool(tiny))
        if (pool and score) or (dimensions and not pool):
            raise click.UsageError("give --pool or --score, not both" if score else "--dimensions goes with --pool")
        around = {"padding": padding or "", "pool": bool(pool), "dimensions": dimensions or 0, "score": score or ""}
        path = _graph(model, out, name, texts, ids, steps, tiny, tokenizer, dtype, floors, around, output)
        _finish(path, model or str(path.parent), output)
        return
    alone = {"--steps": steps, "--padding": padding, "--pool": pool, "--dimensions": dimensions, "--score": score}
    if lost := next((option for option, value in alone.items() if value), ""):
        raise click.UsageError(f"{lost} goes with --text or --ids")
    if model is None:
        raise click.UsageError("give --model, or --tiny")
    import torch

    from qwen3_golden import ParityError, read
    from qwen3_golden.rules import is_plain_name
    from qwen3_parity.judge.match import missing_results
    from qwen3_parity.recording import capture as capturing
    from qwen3_parity.recording.request import model_directory, network_directory, parse_ids, tokenize
    from qwen3_reference.capture.sharded_processes import distributed, is_main, processes

    if (sources and source_ids) or (targets and target_ids):
        raise click.UsageError("give text or ids, not both")
    if generate and (prefill is not None or not (targets or target_ids)):
        raise click.UsageError("--generate goes on behind a --target, which is fed at once: leave out --prefill")
    if not is_plain_name(name):
        raise ParityError(
            f"--name {name!a}",
            "this cannot be the name of a recording",
            expected="a file's name, without folders that lead out and without its suffix",
            got=ascii(name),
            next_step="give another --name; --out is the folder",
        )
    with distributed():
        if stream and processes() > 1:
            raise click.UsageError("a model is streamed or shared by processes, not both: leave out --stream")
        if generate and processes() > 1:
            raise click.UsageError("tokens are chosen in one process: leave out --generate, or torchrun")
        directory = network_directory(model)
        words = model_directory(tokenizer) if tokenizer else directory
        made = capturing.plan(
            directory,
            parse_ids(source_ids) if source_ids else tokenize(sources, words) if sources else [],
            parse_ids(target_ids) if target_ids else tokenize(targets, words) if targets else [],
            prefill=prefill,
            generate=generate,
            taps=taps,
            rows=rows,
            dtype=getattr(torch, dtype),
            rotate_encoder_keys=not unrotated,
        )
        path = out / f"{name}.pb"
        lengths = list(made.lengths.steps)
        output.say(f"{capturing.mode_name(made)} of {model}, steps {lengths}: {made.bytes:,} bytes to {path}")
        kept = capturing.kept_bytes(path)
        capturing.refuse_too_large(made, out, floors=floors, kept=kept)
        if made.bytes > 1 << 30 and not yes and is_main():
            if output.as_json or output.quiet:
                raise click.UsageError(f"{made.bytes:,} bytes: more than 1 GB needs --yes where nobody is asked")
            click.confirm("more than 1 GB; go on?", abort=True)
        if kept:
            output.say(f"a capture of this name was interrupted: {kept:,} bytes of it are there to go on from")
        if stream is None and processes() == 1:
            stream = capturing.is_large(made)
        if stream:
            size = capturing.models_bytes(made)
            output.say(f"the models have {size:,} bytes: streamed from the disk, layer by layer")
        with output.progress("loading", "layers") as update:
            capturing.capture(made, path, floors=floors, stream=bool(stream), progress=update, layers=update.count)
        if not is_main():
            return
    recorded = read(path)
    missing, next_step = missing_results(recorded), command("record", path, "--model", model)
    lines = [tensor.info.name for tensor in recorded] if output.verbose else []
    if missing:
        lines.append(f"a verdict by it is partial, exit code 1 unless --partial: it has no {', '.join(missing)}")
    data = {
        "recording": str(path),
        "model": model,
        "mode": capturing.mode_name(made),
        "steps": lengths,
        "bytes": path.stat().st_size,
        "taps": len(recorded.tensors),
        "no_results": list(missing),
        "next_step": next_step,
    }
    output.finish(0, str(path), lambda: data, lambda: [*lines, f"next: {next_step}"])


_EVERY_ROAD = {"model", "out", "name", "texts", "ids", "steps", "tiny", "tokenizer", "dtype", "floors", "output"}
_EVERY_ROAD |= {"padding", "pool", "dimensions", "score"}
_OF_TINY = {"out", "tiny", "floors"}
_ANSWER = {"as_json", "quiet", "verbose"}


def _refuse_together(ctx: click.Context, *, tiny: bool) -> None:
    """Raise `UsageError` for options that were given and that this road does not take."""
    if ctx.params.get("texts") and ctx.params.get("ids"):
        raise click.UsageError("give text or ids, not both")
    if not tiny and not ctx.params.get("model"):
        raise click.UsageError("--text and --ids need --model")
    taken = (_OF_TINY if tiny else _EVERY_ROAD) | _ANSWER
    source = click.core.ParameterSource.COMMANDLINE
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if ctx.get_parameter_source(name) == source and name not in taken:
            raise click.UsageError(f"{parameter.opts[0]} does not go with {'--tiny' if tiny else '--text or --ids'}")


def _graph(
    model: str | None,
    out: Path,
    name: str,
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
        path = out if out.suffix == ".pb" else out / f"{name}.pb"
        rows = parse_ids(ids) if ids else list(texts)
        kind = getattr(torch, dtype)
        capture_model(model, path, rows, tokenizer=tokenizer, steps=steps, dtype=kind, floors=floors, **around)
    return path


def _finish(path: Path, model: str, output: Output) -> None:
    from qwen3_golden import read

    recorded, next_step = read(path), command("show", path)
    data = {
        "recording": str(path),
        "model": model,
        "mode": "graph",
        "steps": list(recorded.case.steps),
        "bytes": path.stat().st_size,
        "taps": len(recorded.tensors),
        "no_results": [],
        "next_step": next_step,
    }
    lines = [tensor.info.name for tensor in recorded] if output.verbose else []
    output.finish(0, str(path), lambda: data, lambda: [*lines, f"next: {next_step}"])
