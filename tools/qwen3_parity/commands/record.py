"""Run an implementation on a case, or on several: record."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.commands import (
    CASE_OR_FILE,
    FILE,
    checkpoints_option,
    examples,
    model_option,
    output_options,
    tap_names,
)
from qwen3_parity.commands._candidates import Checkpoint
from qwen3_parity.judge.golden_path import case_names, golden_path, no_such_case
from qwen3_parity.judge.next_command import command
from qwen3_parity.recording.tap_sets import TAP_SETS
from qwen3_parity.report.next_step import CHECKED, after_recording, step
from qwen3_parity.report.output import Output, refusal

if TYPE_CHECKING:
    from qwen3_parity.recording.record_case import Implementation

_FOLDER = Path("build/parity")


@click.command(
    epilog=examples(
        "qwen3-parity record 'decoder/*' --impl my_package.model:build --out my_recordings/",
        "qwen3-parity record decoder/plain --impl my_package.model:build --names names.toml --taps layer",
    )
)
@click.argument("golden", shell_complete=CASE_OR_FILE)
@click.option("--out", type=FILE, help=f"The recording's file; of a glob the folder  [default: {_FOLDER}]")
@click.option("--impl", help="Somebody else's model or tokenizer, as package.module:factory.")
@click.option("--names", type=FILE, help="The name map of a torch module that --impl's factory builds, as TOML.")
@click.option("--backend", type=click.Choice(["eager", "sdpa", "flex"]), default="eager", show_default=True)
@model_option("of a captured case; of texts, the tokenizer.")
@checkpoints_option
@click.option(
    "--taps",
    multiple=True,
    metavar="GLOB",
    shell_complete=tap_names(TAP_SETS),
    help="Only these taps, or a set of them: all, fused, modules, sub-layer, layer, logits  [default: all]",
)
@output_options("The name of every tap, too.")
def record(
    golden: str,
    output: Output,
    out: Path | None,
    impl: str | None,
    names: Path | None,
    backend: str,
    model: str | None,
    checkpoints: Path,
    taps: tuple[str, ...],
) -> None:
    """Run an implementation on the case of GOLDEN and record it.

    GOLDEN is a file, a case's name, or a glob over names: then each case is recorded, what is no network's or
    tokenizer's left out. The implementation is ours, unless --impl; of a golden with a graph ours is Hugging Face's own
    model under --backend.

    --impl's factory gets the case and its checkpoint directories by role, and returns a torch module, which is called
    with the case's inputs, or a runner. On a golden with a graph modules are found by the golden's own paths.
    """
    from qwen3_parity.recording.record_case import Implementation

    def implementation(case: pb.Case) -> Implementation:
        if case.mode == pb.TOKENIZATION and (taps or names):
            raise click.UsageError("--names and --taps are for networks; this case is a tokenizer's")
        directory = Checkpoint(model, checkpoints).directory(case)
        return Implementation(impl, names, backend, directory, checkpoints, taps)

    if _is_glob(golden):
        if model or checkpoints != GOLDEN_ROOT / "checkpoints":
            raise click.UsageError("--model and --checkpoints are for one golden, and this is a glob")
        _several(golden, out or _FOLDER, implementation, output)
    file = golden_path(golden)
    case = read(file).case
    path = out or _FOLDER / f"{case.name}.pb"
    with output.progress(f"recording {case.name}"):
        data = _recorded(file, path, implementation(case))
    next_step = command("check", golden, path, *(("--model", model) if model else ()))
    data["golden"] = golden
    lines = [*_lines(path, data, output), f"next: {next_step}"]
    data["left_out"] = sorted(data["left_out"])
    output.finish(0, str(path), lambda: data | {"next": after_recording(golden, path, model)}, lambda: lines)


def _is_glob(golden: str) -> bool:
    return any(sign in golden for sign in "*?[") and not Path(golden).exists()


def _recorded(golden: Path, path: Path, implementation: Implementation) -> dict[str, Any]:
    """Record, and say what came of it: JSON, but for `left_out`, which has the reasons."""
    from qwen3_parity.recording.record_case import record_case

    left_out = record_case(golden, path, implementation)
    recorded = read(path)
    data = {"case": recorded.case.name, "golden": str(golden), "recording": str(path), "taps": len(recorded.tensors)}
    return data | {"left_out": left_out}


def _lines(path: Path, data: dict[str, Any], output: Output) -> list[str]:
    names = [tensor.info.name for tensor in read(path)] if output.verbose else []
    return [*names, *dict.fromkeys(map(str, data["left_out"].values())), str(path)]


def _several(glob: str, folder: Path, implementation: Callable[[pb.Case], Implementation], output: Output) -> NoReturn:
    """Record every case of a glob; what cannot be recorded is refused with the others done, and exit code 2."""
    from qwen3_parity.recording.suite import is_recorded

    names = [name for name in case_names() if fnmatchcase(name, glob)]
    if not names:
        raise no_such_case(glob)
    files = {name: golden_path(name) for name in names}
    cases = {name: read(file).case for name, file in files.items()}
    names = [name for name in names if is_recorded(cases[name])]
    if not names:
        raise ParityError(
            glob,
            "no case of this glob can be recorded: there is no network to run",
            expected="a glob over the cases of networks and tokenizers",
            got=", ".join(files),
            next_step="qwen3-parity cases",
        )
    ready = {name: implementation(cases[name]) for name in names}
    recorded: list[dict[str, Any]] = []
    refused: list[ParityError] = []
    lines: list[str] = []
    with output.progress("recording", "cases") as update:
        for done, name in enumerate(names):
            update.count(done, len(names))
            path = folder / f"{name}.pb"
            try:
                data = _recorded(files[name], path, ready[name])
            except ParityError as error:
                refused.append(error)
                lines.append(str(error))
                continue
            lines += _lines(path, data, output)
            recorded.append(data | {"golden": name, "left_out": sorted(data["left_out"])})
    next_step = command("check", folder)
    verdict = f"{folder}: {len(recorded)} of {len(names)} cases recorded"
    lines += [verdict, f"next: {next_step}"]
    following = step("run", "", command("check", "--json", folder), CHECKED)
    answer = {"recordings": recorded, "refused": [refusal(error) for error in refused], "next": following}
    output.finish(2 if refused else 0, verdict, lambda: answer, lambda: lines)
