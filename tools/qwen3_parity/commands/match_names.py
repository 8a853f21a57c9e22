"""Propose which module of a model, or array of a dump, holds which tap: match-names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.commands import CASE_OR_FILE, FILE, examples, model_option, output_options
from qwen3_parity.judge.next_command import command
from qwen3_parity.report.output import Output

if TYPE_CHECKING:
    from qwen3_parity.recording.case import Case
    from qwen3_parity.recording.matches import Match


@click.command(
    epilog=examples(
        "qwen3-parity match-names decoder/plain --impl my_package.model:build --out names.toml",
        "qwen3-parity match-names decoder/plain my_dump.safetensors --out names.toml",
    )
)
@click.argument("golden", shell_complete=CASE_OR_FILE)
@click.argument("dump", required=False, type=FILE)
@click.option("--impl", help="The model, as package.module:factory.")
@model_option("of a captured case.")
@click.option("--out", type=FILE, default="names.toml", show_default=True, help="The name map.")
@output_options("")
def match_names(golden: str, dump: Path | None, impl: str | None, model: str | None, out: Path, output: Output) -> None:
    """Propose which module of a torch model, or array of a DUMP, is which tap of GOLDEN, a file or a case's name.

    From order, shapes and numbers; each entry says how sure it is. A model's factory gets the case and its checkpoint
    directories by role, and returns the module with these weights. Of a DUMP, as dump import reads it, numbers alone
    say which array is which tap. Look at what is not certain in the file, then give it to --names of record, parity or
    dump import, or to qwen3_parity.record.
    """
    from qwen3_parity.recording import case as cases
    from qwen3_parity.recording.matches import SURE, as_toml
    from qwen3_parity.recording.request import model_directory

    if (dump is None) == (impl is None):
        raise click.UsageError("give a DUMP, or a model with --impl")
    case = cases.golden(golden, model=None if model is None else model_directory(model))
    if dump is not None:
        from qwen3_parity.recording.dumps.match_dump import match_dump

        with output.progress(f"reading {dump}"):
            matches, missing = match_dump(dump, case)
        following = command("dump import", golden, dump, "--names", out)
    else:
        assert impl is not None
        matches, missing = _of_model(impl, case, output)
        following = command("record", golden, "--impl", impl, "--names", out)
    if not matches:
        raise ParityError(
            impl or str(dump),
            "nothing in it looks like a tap of this case",
            expected=f"modules with the shapes and weights of {case.name}, or arrays with its numbers",
            got="none",
            next_step="build the model by the case's own checkpoint, and give it the case's own inputs",
        )
    text = as_toml(matches)
    write_whole(out, text)
    data = {
        "file": str(out),
        "names": [
            {
                "module": matched.named.key,
                "taps": list(matched.named.patterns),
                "sure": SURE[matched.sure],
                "why": matched.why,
            }
            for matched in matches
        ],
        "missing": list(missing),
    }
    shown = [text, *[f"no place was found for {', '.join(missing)}"] * bool(missing)]
    shown.append(f"{out}\nnext: {following}")
    line = f"{out}: {len(matches)} names, none found for {len(missing)} taps"
    output.finish(0, line, lambda: data, lambda: shown)


def _of_model(model: str, case: Case, output: Output) -> tuple[list[Match], list[str]]:
    """The entries for a factory's model, and the taps that it has no place for."""
    from torch import nn

    from qwen3_parity.recording.match_names import match_names as match
    from qwen3_parity.recording.record import foreign_code, load_factory

    with output.progress(f"building {model}"):
        build = load_factory(model)
        with foreign_code(case.golden.case):
            module = build(case.golden.case, case.directories)
    if not isinstance(module, nn.Module):
        raise ParityError(
            model,
            "the factory builds no torch module, so there are no modules to name",
            expected="a torch.nn.Module",
            got=type(module).__name__,
            next_step="return the model itself, or write a runner: qwen3-parity record --impl",
        )
    with output.progress(f"running {model}"), foreign_code(case.golden.case):
        return match(module, case)
