"""Run an implementation on a case: record."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.commands import CASE_OR_FILE, examples, output_options, tap_names
from qwen3_parity.judge.golden_path import golden_path
from qwen3_parity.judge.next_command import command
from qwen3_parity.recording.levels import LEVELS, globs_of
from qwen3_parity.report.next_step import after_recording
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)
_FOLDER = Path("build/parity")
_CHECKPOINTS = GOLDEN_ROOT / "checkpoints"


@click.command(
    epilog=examples(
        "qwen3-parity record decoder/plain",
        "qwen3-parity record decoder/plain --impl my_package.model:build --names names.toml --taps layer",
    )
)
@click.argument("golden", shell_complete=CASE_OR_FILE)
@click.option("--out", type=FILE, help="The recording's file  [default: build/parity/CASE.pb]")
@click.option("--impl", help="Somebody else's model or tokenizer, as package.module:factory.")
@click.option("--names", type=FILE, help="The name map of a torch module that --impl's factory builds, as TOML.")
@click.option("--backend", type=click.Choice(["eager", "sdpa", "flex"]), default="eager", show_default=True)
@click.option("--model", type=FILE, help="The checkpoint directory of a captured case.")
@click.option("--tokenizer", type=FILE, help="The directory of a tokenization case  [default: the committed one]")
@click.option("--checkpoints", type=FILE, default=_CHECKPOINTS, help="Where the case's checkpoints are.")
@click.option(
    "--taps",
    multiple=True,
    metavar="GLOB",
    shell_complete=tap_names(LEVELS),
    help="Only these taps, or a level: all, fused, modules, sub-layer, layer, logits  [default: all]",
)
@output_options("The name of every tap, too.")
def record(
    golden: str,
    output: Output,
    out: Path | None,
    impl: str | None,
    names: Path | None,
    backend: str,
    model: Path | None,
    tokenizer: Path | None,
    checkpoints: Path,
    taps: tuple[str, ...],
) -> None:
    """Run an implementation (ours, unless --impl) on the case of GOLDEN, a file or a case's name, and record it.

    Of a golden with a graph ours is Hugging Face's own model under --backend.

    --impl's factory gets the case and its checkpoint directories by role, and returns a torch module, which is called
    with the case's inputs, or a runner. On a golden with a graph modules are found by the golden's own paths.
    """
    import warnings

    from torch import nn

    from qwen3_parity.checkpoints.graph_weights import directory_of
    from qwen3_parity.checkpoints.weights import checkpoint_directories, checkpoints_of, refuse_others
    from qwen3_parity.judge.match import refuse_weights
    from qwen3_parity.recording import record as recorder
    from qwen3_parity.recording.arguments import run
    from qwen3_parity.recording.case import Case
    from qwen3_parity.recording.factories import factory_of
    from qwen3_parity.recording.left_out import LeftOut
    from qwen3_parity.recording.text import record_tokenization
    from qwen3_parity.recording.wired import record_module

    reference = read(golden_path(golden))
    refuse_weights(reference)
    path = out or _FOLDER / f"{reference.case.name}.pb"
    left_out: dict[str, ParityError] = {}
    if reference.case.mode == pb.TOKENIZATION:
        if model or taps:
            raise click.UsageError("--model and --taps are for networks; this case is a tokenizer's")
        with output.progress(f"recording {reference.case.name}"):
            record_tokenization(reference, path, factory_of(reference, impl), directory=tokenizer)
    else:
        if tokenizer:
            raise click.UsageError("--tokenizer is for tokenization cases; this one is a network's")
        globs, any_model = globs_of(taps, reference.case), reference.case.mode == pb.GRAPH
        if any_model and checkpoints == _CHECKPOINTS:
            checkpoints = checkpoints_of(golden_path(golden))
        beside = directory_of(reference, checkpoints, model) if any_model else None
        directories = {"model": beside} if beside else checkpoint_directories(reference.case, checkpoints, model)
        with output.progress(f"recording {reference.case.name}"):
            build = factory_of(reference, impl, backend)
            with recorder.foreign_code(reference.case):
                built = build(reference.case, directories)
            if beside is None:  # behind what a loader says of a damaged one
                refuse_others(reference.case, checkpoints, model)
            if isinstance(built, nn.Module):
                case = Case(golden_path(golden), reference, model)
                with recorder.foreign_code(reference.case), warnings.catch_warnings():
                    warnings.simplefilter("ignore", LeftOut)  # it is said below
                    with record_module(built, case, names, path, globs) as recording:
                        run(built, case)
                left_out = recording.left_out
            else:
                recorder.record(reference, path, lambda *_: built, checkpoints=checkpoints, model=model, taps=globs)
    recorded = read(path)
    lines = [tensor.info.name for tensor in recorded] if output.verbose else []
    next_step = command("check", golden, path, *(("--model", model) if model else ()))
    data = {"case": reference.case.name, "golden": str(golden), "recording": str(path), "taps": len(recorded.tensors)}
    data["left_out"] = sorted(left_out)
    lines += [*dict.fromkeys(map(str, left_out.values())), f"{path}", f"next: {next_step}"]
    output.finish(0, str(path), lambda: data | {"next": after_recording(golden, path, model)}, lambda: lines)
