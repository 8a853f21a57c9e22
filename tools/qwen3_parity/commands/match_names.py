"""Propose which module of a model holds which tap: match-names."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.commands import CASE_OR_FILE, FILE, examples, output_options
from qwen3_parity.judge.next_command import command
from qwen3_parity.report.output import Output


@click.command(epilog=examples("qwen3-parity match-names decoder/plain --impl my_package.model:build --out names.toml"))
@click.argument("golden", shell_complete=CASE_OR_FILE)
@click.option("--impl", required=True, help="The model, as package.module:factory.")
@click.option("--out", type=FILE, default="names.toml", show_default=True, help="The name map.")
@output_options("")
def match_names(golden: str, impl: str, out: Path, output: Output) -> None:
    """Propose which module of a torch model is which tap of GOLDEN, a file or a case's name.

    From order, shapes and numbers; each entry says how sure it is. The factory gets the case and its checkpoint
    directories by role, and returns the module with these weights. Look at what is not certain in the file, then give
    it to record --names or parity --names, or to qwen3_parity.record.
    """
    from torch import nn

    from qwen3_parity.checkpoints.weights import checkpoint_directories
    from qwen3_parity.recording import case as cases
    from qwen3_parity.recording.match_names import SURE, as_toml
    from qwen3_parity.recording.match_names import match_names as match
    from qwen3_parity.recording.record import foreign_code, load_factory

    case = cases.golden(golden)
    with output.progress(f"building {impl}"):
        build = load_factory(impl)
        with foreign_code(case.golden.case):
            module = build(case.golden.case, checkpoint_directories(case.golden.case, GOLDEN_ROOT / "checkpoints"))
    if not isinstance(module, nn.Module):
        raise ParityError(
            impl,
            "the factory builds no torch module, so there are no modules to name",
            expected="a torch.nn.Module",
            got=type(module).__name__,
            next_step="return the model itself, or write a runner: qwen3-parity record --impl",
        )
    with output.progress(f"running {impl}"), foreign_code(case.golden.case):
        matches, missing = match(module, case)
    if not matches:
        raise ParityError(
            impl,
            "nothing in the model looks like a tap of this case",
            expected=f"modules with the shapes and weights of {case.name}",
            got="none",
            next_step="build the model by the case's own checkpoint, the factory's second argument",
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
    shown.append(f"{out}\nnext: {command('record', golden, '--impl', impl, '--names', out)}")
    line = f"{out}: {len(matches)} names, none found for {len(missing)} taps"
    output.finish(0, line, lambda: data, lambda: shown)
