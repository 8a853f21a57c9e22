"""What is written for Google's Model Explorer is what its package loads, and says what the verdict says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """decoder/plain with one channel of one activation wrong, as the command writes it."""
    folder, case = tmp_path_factory.mktemp("overlay"), qwen3_parity.golden("decoder/plain")
    with qwen3_parity.record(None, case, path=folder / "wrong.pb") as recording:
        for item in case.golden:
            if not item.info.name.startswith("input.") and not item.info.name.endswith("scores"):
                array = item.array.copy()
                if item.key == ("decoder.layers.1.mlp.act", 2):
                    array[..., 3] = float("nan") if item.info.step == 4 else 1e4
                recording[item.info.name, item.info.step] = array
    arguments = ["model-explorer", "decoder/plain", str(folder / "wrong.pb"), "--out", str(folder / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return {path.stem: json.loads(path.read_text()) for path in (folder / "out").iterdir()}


def test_a_value_is_the_worst_share_of_a_taps_steps(overlay: dict[str, Any]) -> None:
    run, own = (overlay[name]["results"] for name in ("accumulated", "own"))
    wrong = "decoder.layers.1.mlp.act"
    assert run[wrong]["value"] > 1 and own[wrong]["value"] > 1
    downstream = own["decoder.layers.1.mlp.down_proj"]["value"]
    assert downstream > 1  # its recorded output is the golden's, and not that of the wrong activation
    assert max(one["value"] for name, one in run.items() if name != wrong) <= 1
    assert "decoder.layers.1.merged_attn.scores" not in run


def test_every_value_has_a_node_and_every_edge_its_two(overlay: dict[str, Any]) -> None:
    (graph,) = overlay["network"]["graphs"]
    ids = [node["id"] for node in graph["nodes"]]
    assert len(set(ids)) == len(ids)
    for name in ("accumulated", "own"):
        assert overlay[name]["results"].keys() <= set(ids)
    assert {edge["sourceNodeId"] for node in graph["nodes"] for edge in node["incomingEdges"]} <= set(ids)
    assert not [name for name in ids if "encoder_" in name or name.startswith("generated")]  # another network's
    act = next(node for node in graph["nodes"] if node["id"] == "decoder.layers.1.mlp.act")
    assert (act["namespace"], act["label"]) == ("decoder/layers.1/mlp", "act")
    assert [edge["sourceNodeId"] for edge in act["incomingEdges"]] == [
        "decoder.layers.1.mlp.gate_proj",
        "decoder.layers.1.mlp.up_proj",
    ]
    assert {"key": "Hugging Face", "value": "layers.{layer}.mlp.down_proj input"} in act["attrs"]
    assert "decoder.layers.1.merged_attn.scores" in ids  # what was not recorded is in the network all the same


def test_the_overlays_are_the_packages_own_node_data(overlay: dict[str, Any]) -> None:
    builder = pytest.importorskip("model_explorer.node_data_builder", exc_type=ImportError)
    for name in ("accumulated", "own"):
        one = overlay[name]
        results = {tap: builder.NodeDataResult(**value) for tap, value in one["results"].items()}
        thresholds = [builder.ThresholdItem(**item) for item in one["thresholds"]]
        made = builder.GraphNodeData(results=results, name=one["name"], thresholds=thresholds)
        written = json.loads(made.to_json_string())
        assert {key: written[key] for key in one} == one
        values = [item["value"] for item in one["thresholds"]]  # beyond the last one a node has no colour
        assert values == sorted(values) and max(value["value"] for value in one["results"].values()) <= values[-1]


def test_the_graph_is_the_packages_own_collection(overlay: dict[str, Any]) -> None:
    builder = pytest.importorskip("model_explorer.graph_builder", exc_type=ImportError)

    def node(one: dict[str, Any]) -> Any:
        edges = [builder.IncomingEdge(**edge) for edge in one["incomingEdges"]]
        attrs = [builder.KeyValue(**attr) for attr in one["attrs"]]
        outputs = [
            builder.MetadataItem(id=item["id"], attrs=[builder.KeyValue(**attr) for attr in item["attrs"]])
            for item in one["outputsMetadata"]
        ]
        return builder.GraphNode(**one | {"incomingEdges": edges, "attrs": attrs, "outputsMetadata": outputs})

    network = overlay["network"]
    (graph,) = network["graphs"]
    made = builder.GraphCollection(
        label=network["label"],
        graphs=[builder.Graph(id=graph["id"], nodes=[node(one) for one in graph["nodes"]])],
    )
    written = asdict(made)["graphs"][0]["nodes"]
    assert [{key: one[key] for key in graph["nodes"][0]} for one in written] == graph["nodes"]


@pytest.mark.parametrize(
    "name", ["encdec/ragged", "encoder/ragged", "classic/bert", "generation/greedy", "training/causal", "op/rope"]
)
def test_other_networks_have_theirs(name: str, tmp_path: Path) -> None:
    golden = GOLDEN_ROOT / "cases" / f"{name}.pb"
    made = CliRunner().invoke(main, ["model-explorer", name, str(golden), "--out", str(tmp_path)])
    assert made.exit_code == 0, made.output
    graph = json.loads((tmp_path / "network.json").read_text())["graphs"][0]
    ids = {node["id"] for node in graph["nodes"]}
    assert json.loads((tmp_path / "accumulated.json").read_text())["results"].keys() <= ids
    assert {edge["sourceNodeId"] for node in graph["nodes"] for edge in node["incomingEdges"]} <= ids


def test_the_documented_structure_holds_without_the_package(overlay: dict[str, Any]) -> None:
    for name in ("accumulated", "own"):
        assert overlay[name].keys() == {"name", "results", "thresholds"}
        assert all(
            one.keys() == {"value"} and isinstance(one["value"], float) for one in overlay[name]["results"].values()
        )
        assert all(item.keys() == {"value", "bgColor"} for item in overlay[name]["thresholds"])
