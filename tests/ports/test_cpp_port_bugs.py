"""Twenty bugs, of ports and of kernels, put into the C++ port one at a time: each is blamed on its ops, 17 are named.

Its recordings have no scores and probabilities. Tiles have 4 keys here and every product has two threads, so that small
cases reach them. Sums in bfloat16, a thread that does not run and weights rounded under a running peak have no name.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main

SOURCES = GOLDEN_ROOT.parent / "ports" / "cpp" / "src"
CASES = GOLDEN_ROOT / "cases"


class Bug(NamedTuple):
    """Text of a source file in other words, the places that are wrong then, the mistake's name (empty: none fits)."""

    file: str
    correct: str
    wrong: str
    places: set[str]
    name: str
    case: str = "decoder/ragged_decode"


NORM = """  if (config_.use_qk_norm() && name != "v") {
    y = norm(y, prefix + "self_attn." + name + "_norm");
    tap(half + name + "_norm", y);
  }
  y = ops::swap_heads(y);
"""
ROPE = """  if (tables) {
    y = ops::rope(y, *tables);
    tap(half + name + "_rope", y);
  }
"""
TURN = """    for (int64_t i = 0; i < half; i++) {
      y.data[row * n + i] = from[i] * cos[i] - from[i + half] * sin[i];
      y.data[row * n + i + half] = from[i + half] * cos[i + half] + from[i] * sin[i + half];
"""
NEIGHBOURS = """    for (int64_t i = 0; i < half; i++) {
      y.data[row * n + 2 * i] = from[2 * i] * cos[i] - from[2 * i + 1] * sin[i];
      y.data[row * n + 2 * i + 1] = from[2 * i + 1] * cos[i] + from[2 * i] * sin[i];
"""
APPEND = "    cache->keys = k = ops::join_slots(cache->keys, k);\n"
UNWRITTEN = """    int64_t past = cache->keys.empty() ? 0 : cache->keys.shape[2];
    k = ops::join_slots(cache->keys, k);
    for (int64_t i = 0; i < k.rows() * k.last(); i++) k.data[i] *= i / k.last() % k.shape[2] >= past;
    cache->keys = k;
"""
FUSED = """  parallel(batch * heads * query, 2 * batch * heads * query * key * n, [&](int64_t row) {
    int64_t kv = row / query / groups"""
SCALE = "1 / std::sqrt(dot(from, from, n) / static_cast<float>(n) + static_cast<float>(eps))"
TILES = "start < key; start += kTile"
NARROW = "from_bits((to_bits({}) + 0x8000) & 0xffff0000)"
SHOWN = "        highest = std::max(highest, scores[j]);\n"
WEIGHED = "        if (!visible[start + j]) continue;\n        float weight"
LANES = "  for (float lane : lanes) sum += lane;\n"
LINEARS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "logits", "context"}
NORMS = {"input_layernorm", "post_attention_layernorm", "q_norm", "k_norm", "norm"}
BUGS = {
    "the past is not in the cache": Bug("qwen3", APPEND, UNWRITTEN, {"cache_keys"}, "cache.not_written"),
    "keys and values are exchanged": Bug("qwen3", APPEND, "    std::swap(k, v);\n" + APPEND,
        {"cache_keys", "cache_values"}, "cache.keys_values_exchanged"),
    "rope turns neighbours": Bug("ops", TURN, NEIGHBOURS, {"q_rope", "k_rope"}, "rope.interleaved"),
    "kv heads are tiled": Bug("ops", FUSED,
        FUSED.replace("row / query / groups",
        "row / (heads * query) * (heads / groups) + row / query % (heads / groups)"), {"context"},
        "context.kv_heads_tiled"),
    "qk-norm comes after rope": Bug("qwen3", NORM + ROPE,
        "  y = ops::swap_heads(y);\n" + ROPE + NORM.replace("  y = ops::swap_heads(y);\n", "").replace(", y);",
        ", ops::swap_heads(y));"), {"q_rope", "q_norm", "k_rope", "k_norm", "cache_keys", "context"},
        "rope.before_norm"),
    "biases are not added": Bug("qwen3", "found == weights_.end() ? nullptr : &found->second", "nullptr",
        {*(f"{half}{name}_proj" for half in ("", "encoder_") for name in "kv"), "q_proj", "o_proj"}, "weight.no_bias",
        "encdec/unpadded"),
    "eps is outside the root": Bug("ops", SCALE,
        "1 / (std::sqrt(dot(from, from, n) / static_cast<float>(n)) + static_cast<float>(eps))",
        {"input_layernorm", "q_norm"}, "norm.eps_outside_root"),
    "positions are one late in decode": Bug("network_case", "decoder.decode(x, ops::columns(positions, from, to)",
        "decoder.decode(x, ops::columns(positions, std::max<int64_t>(0, from - 1), std::max(to - 1, to - from))",
        {"position_ids"}, "positions.offset"),
    "the final norm has another's weight": Bug("qwen3", 'stack("norm", x = norm(x, "model.norm"));\n  Floats logits',
        'stack("norm", x = norm(x, "model.layers.0.input_layernorm"));\n  Floats logits', {"norm"},
        "weight.other_tensor"),
    "a window has one key too many": Bug("ops", "query - key < window", "query - key <= window", {"mask"},
        "mask.window_off_by_one", "decoder/window_even"),
    "the last tile is left out": Bug("ops", TILES, "start + kTile <= key; start += kTile", {"context"},
        "softmax.tail_lost", "encdec/ragged"),
    "what was summed up is not rescaled": Bug("ops", "      for (int64_t i = 0; i < n; i++) to[i] *= smaller;\n", "",
        {"context"}, "context.unscaled_blocks", "encdec/ragged"),
    "the sum of weights is not rescaled": Bug("ops", "      sum *= smaller;\n", "", {"context"},
        "context.unscaled_blocks", "encdec/ragged"),
    "weights are rounded to bfloat16": Bug("ops", "float weight = std::exp(scores[j] - peak);",
        f"float weight = {NARROW.format('std::exp(scores[j] - peak)')};", {"context"}, ""),
    "scores are rounded to bfloat16": Bug("ops", SHOWN, f"        scores[j] = {NARROW.format('scores[j]')};\n" + SHOWN,
        {"context"}, "scores.half_precision"),
    "hidden keys weigh as a score of 0": Bug("ops", WEIGHED,
        "        if (!visible[start + j]) scores[j] = 0;\n        float weight", {"context"},
        "softmax.mask_multiplied"),
    "every row has the first one's mask": Bug("ops", "&mask.data[(b * query + row % query) * key];\n    float* to",
        "&mask.data[row % query * key];\n    float* to", {"context"}, "mask.other_row"),
    "what fills no lanes is left out": Bug("ops", "  for (; i < n; i++) sum += a[i] * b[i];\n", "",
        {"q_norm", "k_norm", "o_proj", "down_proj", "context"}, "norm.lost_terms"),
    "sums are rounded to bfloat16": Bug("ops", LANES, f"{LANES}  sum = {NARROW.format('sum')};\n", LINEARS | NORMS, ""),
    "the second thread does not run": Bug("ops", "  std::thread other(part, half, count);\n",
        "  std::thread other([] {});\n", LINEARS, ""),
}  # fmt: skip


def built(bug: Bug, build: Path, folder: Path) -> Path:
    """The port with the bug: everything is one unit, which reads the wrong file in place of the right one."""
    source = (SOURCES / f"{bug.file}.cpp").read_text(encoding="utf-8")
    assert source.count(bug.correct) == 1
    source = source.replace(bug.correct, bug.wrong).replace("kTile = 32", "kTile = 4").replace("1 << 18", "1")
    (folder / "wrong.cpp").write_text(source, encoding="utf-8")
    every = (build / "all.cpp").read_text(encoding="utf-8")
    assert every.count(f'"src/{bug.file}.cpp"') == 1
    (folder / "all.cpp").write_text(every.replace(f'"src/{bug.file}.cpp"', '"wrong.cpp"'), encoding="utf-8")
    include = ["-isystem", str(build), "-I", str(SOURCES.parent), "-I", str(SOURCES), "-I", str(folder)]
    compiled = ["all.cpp", str(build / "golden.pb.cc.o"), "-lprotobuf", "-o", "wrong"]
    subprocess.run(["g++", "-std=c++17", "-pthread", *include, "-w", *compiled], cwd=folder, check=True)
    return folder / "wrong"


@pytest.mark.slow
@pytest.mark.parametrize("port", ["cpp"], indirect=True)
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS.keys())
def test_a_bug_in_the_cpp_port_is_blamed_on_its_ops_and_named_first(bug: Bug, port: Any, tmp_path: Path) -> None:
    wrong = built(bug, port.build, tmp_path)
    subprocess.run([wrong, "run", CASES / f"{bug.case}.pb", tmp_path / "wrong.pb"], check=True)
    judged = CliRunner().invoke(main, ["diagnose", str(tmp_path / "wrong.pb"), "--json"])
    assert judged.exit_code == 1
    faults = json.loads(judged.stdout)["faults"]
    assert {fault["place"].rpartition(".")[2] for fault in faults} == bug.places
    if bug.name:
        assert faults[0]["explanations"][0]["name"] == bug.name


def test_seventeen_of_twenty_bugs_have_a_name() -> None:
    assert len(BUGS) == 20 and sum(bool(bug.name) for bug in BUGS.values()) >= 17
