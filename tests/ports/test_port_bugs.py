"""Ten classic bugs, put into the Java port one at a time: the recording alone says which op, and which mistake."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from jvm import JAVA, JAVAC

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main

SOURCES = GOLDEN_ROOT.parent / "ports" / "java" / "src" / "main" / "java" / "qwen3" / "port"
CASES = GOLDEN_ROOT / "cases"


class Bug(NamedTuple):
    """Text of a source file in other words, the places that are wrong then, and the mistake's name."""

    file: str
    correct: str
    wrong: str
    places: set[str]
    name: str
    case: str = "decoder/ragged_decode"


NORM = """    if (config.getUseQkNorm() && !name.equals("v")) {
      y = Ops.rmsNorm(y, weight("self_attn." + name + "_norm.weight"), config.getRmsNormEps());
      tap.record(half + name + "_norm", y);
    }
    y = Ops.swapHeads(y);
"""
ROPE = """    if (tables != null) {
      y = Ops.rope(y, tables);
      tap.record(half + name + "_rope", y);
    }
"""
# An eps in another place shows wherever a row is so small that it counts.
BUGS = {
    "the past is not in the cache": Bug("Ops",
        "System.arraycopy(a.data(), head * first, y.data(), head * (first + second), first);", "",
        {"cache_keys", "cache_values"}, "cache.not_written"),
    "keys and values are exchanged": Bug("Cache", "append(Floats newKeys, Floats newValues)",
        "append(Floats newValues, Floats newKeys)", {"cache_keys", "cache_values"}, "cache.keys_values_exchanged"),
    "rope turns neighbours": Bug("Ops", "i < n / 2 ? -x.data()[row * n + i + n / 2] : x.data()[row * n + i - n / 2]",
        "i % 2 == 0 ? -x.data()[row * n + i + 1] : x.data()[row * n + i - 1]", {"q_rope", "k_rope"},
        "rope.mixed_layout"),
    "kv heads are tiled": Bug("Ops", "int kv = row / query / groups; // over batch and kv_heads",
        "int kv = row / query / q.shape()[1] * k.shape()[1] + row / query % k.shape()[1];", {"scores"},
        "scores.kv_heads_tiled"),
    "qk-norm comes after rope": Bug("Layer", NORM + ROPE,
        "    y = Ops.swapHeads(y);\n" + ROPE + NORM.replace("    y = Ops.swapHeads(y);\n", "").replace(", y);",
        ", Ops.swapHeads(y));"), {"q_rope", "q_norm", "k_rope", "k_norm", "cache_keys", "scores"}, "rope.before_norm"),
    "biases are not added": Bug("Layer", 'weights.get(prefix + name + ".bias")', "null",
        {*(f"{half}{name}_proj" for half in ("", "encoder_") for name in "kv"), "q_proj", "o_proj"}, "weight.no_bias",
        "encdec/unpadded"),
    "eps is outside the root": Bug("Ops", "(float) Math.sqrt(meanSquare + (float) eps)",
        "(float) (Math.sqrt(meanSquare) + eps)", {"input_layernorm", "q_norm"}, "norm.eps_outside_root"),
    "positions are one late in decode": Bug("NetworkCase", "decoder.decode(x, columns(positions, from, to)",
        "decoder.decode(x, columns(positions, Math.max(0, from - 1), Math.max(to - 1, to - from))", {"position_ids"},
        "positions.offset"),
    "the final norm has another's weight": Bug("Qwen3", 'weights.get("model.norm.weight")',
        'weights.get("model.layers.0.input_layernorm.weight")', {"norm"}, "weight.other_tensor"),
    "text is not cut before merging": Bug("Tokenizer", "preTokenizer.end(text.text(), begin)", "text.text().length",
        {"pre_tokens"}, "pre_tokens.missing", "tokenization/words"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_classic_bug_in_the_java_port_is_blamed_on_its_ops_and_named_first(
    bug: Bug, java_port: Path, tmp_path: Path
) -> None:
    source = (SOURCES / f"{bug.file}.java").read_text(encoding="utf-8")
    assert source.count(bug.correct) == 1
    (tmp_path / f"{bug.file}.java").write_text(source.replace(bug.correct, bug.wrong), encoding="utf-8")
    path = f"{tmp_path}:{java_port}/classes:{java_port}/protobuf.jar"
    subprocess.run([*JAVAC, "-cp", path, "-d", tmp_path, tmp_path / f"{bug.file}.java"], check=True)
    arguments: list[str | Path] = ["run", CASES / f"{bug.case}.pb", tmp_path / "wrong.pb"]
    subprocess.run([*JAVA, "-cp", path, "qwen3.port.Main", *arguments], check=True)
    judged = CliRunner().invoke(main, ["diagnose", str(tmp_path / "wrong.pb"), "--json"])
    assert judged.exit_code == 1
    faults = json.loads(judged.stdout)["faults"]
    places = [fault["place"] if "place" in fault else fault["stage"] for fault in faults]
    assert {place.rpartition(".")[2] for place in places} == bug.places
    assert faults[0]["explanations"][0]["name"] == bug.name
