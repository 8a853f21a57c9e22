"""A tour without a model of one's own: demo."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_golden.whole import write_whole
from qwen3_golden.writer import write
from qwen3_parity.commands import FILE, examples, output_options
from qwen3_parity.report.output import Output

_CASE = "decoder/plain"
_MISTAKE, _PLACES = "rope.interleaved", ("q_rope", "k_rope")
_NEXT = """\
# Your own PyTorch model on the same case, its modules named as Hugging Face's. Other names:
# qwen3-parity show docs/check-your-model.md
import qwen3_parity

case = qwen3_parity.golden("decoder/plain")
model = ...  # yours: a torch.nn.Module with the weights in the folder case.checkpoint, in eval mode
with qwen3_parity.record(model, case) as recording:
    model(**case.inputs)
print("next: qwen3-parity diagnose", recording.path)
"""


@click.command(epilog=examples("qwen3-parity demo"))
@click.option("--out", type=FILE, default=Path("qwen3-parity-demo"), show_default=True, help="The folder for it all.")
@output_options("Everything of the diagnosis.")
def demo(out: Path, output: Output) -> None:
    """Make a candidate with one mistake, check it, have the mistake named, and write the report.

    The candidate is the specification's own run of a small decoder that rotates adjacent dimensions instead of halves.
    No torch is needed. Exit code 0: the mistake was found.
    """
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose
    from qwen3_parity.diagnosis.demonstrated import with_mistake
    from qwen3_parity.report import diagnoses
    from qwen3_parity.report.page.contents import Report
    from qwen3_parity.report.page.html import html
    from qwen3_parity.report.page.mistakes import mistakes_of

    path = GOLDEN_ROOT / "cases" / f"{_CASE}.pb"
    golden, file, page = read(path), out / f"{_CASE}.pb", out / "report.html"
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    with output.progress("making a candidate") as update:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, with_mistake(golden, weights, _MISTAKE, _PLACES))
        update("judging")
        candidate = read(file, digests=True)
        diagnosis = diagnose(golden, candidate, weights, update)
        update("writing the report")
        write_whole(page, html(Report([diagnosis.verdicts], mistakes_of(diagnosis), weights=weights)))
    yours = out / "yours.py"
    yours.write_text(_NEXT, encoding="utf-8")
    lines = (
        "\nthe same by hand:",
        f"  qwen3-parity check {file}",
        f"  qwen3-parity diagnose {file}",
        f"the report, for a browser: {page}",
        f"your own model: put it into {yours}, then: python {yours}",
    )
    files = {"recording": str(file), "report": str(page), "yours": str(yours)}
    output.finish(
        0,
        diagnoses.verdict(diagnosis),
        lambda: diagnoses.to_json(diagnosis) | {"files": files},
        lambda: [diagnoses.terminal(diagnosis, every=output.verbose), *lines],
    )
