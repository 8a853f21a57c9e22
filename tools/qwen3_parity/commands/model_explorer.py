"""What was found as overlays for Google's Model Explorer: model-explorer."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_parity.commands import CASE_OR_FILE, examples, output_options
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)


@click.command(
    "model-explorer",
    epilog=examples("qwen3-parity model-explorer decoder/plain build/parity/decoder/plain.pb --out overlay"),
)
@click.argument("golden", shell_complete=CASE_OR_FILE)
@click.argument("candidate", type=FILE)
@click.option("--out", required=True, type=FILE, help="The folder for network.json, accumulated.json and own.json.")
@click.option("--model", type=FILE, help="The checkpoint of a captured case.")
@output_options("")
def model_explorer(golden: str, candidate: Path, out: Path, model: Path | None, output: Output) -> None:
    """Write how far CANDIDATE is from GOLDEN (a file or a case's name) for Google's Model Explorer.

    network.json is the graph, a node a tap. The two others are laid over it: the share of its budget that each tap
    uses in the run, and alone: model-explorer OUT/network.json --node_data_paths=OUT/own.json
    """
    import json

    from qwen3_golden import GOLDEN_ROOT, read
    from qwen3_golden.whole import write_whole
    from qwen3_parity.check import check
    from qwen3_parity.checkpoints.weights import weights_at_hand
    from qwen3_parity.judge.golden_path import golden_path
    from qwen3_parity.report.model_explorer import network_graph, node_data

    with output.progress(f"judging {candidate}"):
        expected = read(golden_path(golden), digests=True)
        weights = weights_at_hand(expected, GOLDEN_ROOT / "checkpoints", model)
        verdicts = check(expected, read(candidate, digests=True), weights)
        own = [tap.own for tap in verdicts.taps if tap.own is not None]
        contents = {"network": network_graph(verdicts), **node_data(verdicts, own)}
        for name, content in contents.items():
            write_whole(out / f"{name}.json", json.dumps(content, indent=1, allow_nan=False))
    nodes = len(contents["network"]["graphs"][0]["nodes"])
    line = f"{out}: a graph of {nodes} nodes, and the overlays accumulated.json and own.json"
    files = [str(out / f"{name}.json") for name in contents]
    data = {"files": files, "nodes": nodes, "verdict": verdicts.word}
    output.finish(0, line, lambda: data, lambda: [line])
