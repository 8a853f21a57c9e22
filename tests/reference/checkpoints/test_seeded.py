"""Seeded checkpoints of any size: whole, loud, the same every time, in little memory; nothing half-written stays."""

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qwen3_golden import Array, ParityError, to_bfloat16
from qwen3_golden.models import model
from qwen3_reference.capture.models import load_reference
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.published import config_json
from qwen3_reference.checkpoints.safetensors_writer import SIZES, divided, header, write_shards
from qwen3_reference.checkpoints.seeded import main, write_seeded
from qwen3_reference.checkpoints.stored import read_directory
from qwen3_reference.checkpoints.weights import expected_tensors, load_weights


def small(name: str, **sizes: int) -> dict[str, Any]:
    """config.json of a published model at a small width."""
    config = model(name).config
    defaults = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "head_dim": 8, "vocab_size": 101}
    for field, value in (defaults | {"num_attention_heads": 4, "num_key_value_heads": 2} | sizes).items():
        setattr(config, field, value)
    return config_json(config, "float32")


def values(directory: Path) -> dict[str, Array]:
    return {name: tensor.float32() for name, tensor in read_directory(directory).items()}


@pytest.mark.parametrize("name", ["Qwen3-0.6B", "Qwen3-8B", "Qwen2.5-0.5B", "Qwen2.5-7B"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_checkpoint_has_exactly_the_tensors_of_its_network(name: str, dtype: str, tmp_path: Path) -> None:
    write_seeded(small(name), tmp_path / "made", dtype, 2)
    config = model_config(tmp_path / "made")
    shapes = expected_tensors(config)
    head = {} if config.tie_word_embeddings else {"lm_head.weight": shapes["model.embed_tokens.weight"]}
    assert {key: value.shape for key, value in values(tmp_path / "made").items()} == {**shapes, **head}
    assert json.loads((tmp_path / "made" / "config.json").read_text())["torch_dtype"] == dtype
    load_weights(tmp_path / "made", tmp_path / "made")
    load_reference(None, tmp_path / "made")


def test_a_seed_gives_the_same_values_in_any_dtype_and_number_of_shards(tmp_path: Path) -> None:
    for folder, dtype, shards, seed in (
        ("a", "float32", 1, 5),
        ("b", "float32", 4, 5),
        ("c", "bfloat16", 2, 5),
        ("d", "float32", 1, 6),
    ):
        write_seeded(small("Qwen3-8B"), tmp_path / folder, dtype, shards, seed)
    a, b, reseeded = (values(tmp_path / folder) for folder in "abd")
    narrow = read_directory(tmp_path / "c")
    assert a.keys() == b.keys() == reseeded.keys() == narrow.keys()
    for name in a:
        assert np.array_equal(a[name], b[name]) and not np.array_equal(a[name], reseeded[name])
        assert np.array_equal(narrow[name].bits, to_bfloat16(a[name]))


def test_a_tensor_of_many_blocks_is_the_same_whatever_comes_before_it(tmp_path: Path) -> None:
    wide = {"hidden_size": 1024, "intermediate_size": 520, "vocab_size": 700}
    write_seeded(small("Qwen3-8B", num_hidden_layers=1, **wide), tmp_path / "one", "float32", 1)
    write_seeded(small("Qwen3-8B", num_hidden_layers=2, **wide), tmp_path / "two", "float32", 3)
    first, second = values(tmp_path / "one"), values(tmp_path / "two")
    assert all(np.array_equal(first[name], second[name]) for name in first)
    embedding = first["model.embed_tokens.weight"]
    assert len(np.unique(embedding[:, 0])) >= 690  # no block of 256 rows is another one again
    assert abs(np.corrcoef(embedding[100], embedding[100 + 256])[0, 1]) < 0.2


def test_a_checkpoint_is_loud(tmp_path: Path) -> None:
    write_seeded(small("Qwen3-8B", num_hidden_layers=4, hidden_size=64), tmp_path / "made", "bfloat16", 1)
    tensors = values(tmp_path / "made")
    norms = {name: value for name, value in tensors.items() if "norm" in name}
    assert len(norms) == 17
    for weight in norms.values():
        assert np.all(np.abs(np.abs(weight) - 1) > 0.15)
    for (_, a), (_, b) in combinations(tensors.items(), 2):
        assert a.shape != b.shape or not np.array_equal(a, b)
    rows = np.sqrt(np.mean(tensors["model.embed_tokens.weight"] ** 2, axis=1))
    assert rows[-4:].min() > 1.5 * np.median(rows) and rows[7] < 0.01
    assert np.array_equal(*tensors["lm_head.weight"][[30, 31]])
    for projection, fan_in in (("self_attn.q_proj", 64), ("mlp.up_proj", 64), ("mlp.down_proj", 40)):
        weight = tensors[f"model.layers.2.{projection}.weight"]
        assert 0.4 < weight.std() * np.sqrt(fan_in) < 2.5
    heads = tensors["model.layers.1.self_attn.q_proj.weight"].reshape(4, 8, 64).std(axis=(1, 2))
    assert heads.max() / heads.min() > 1.05


def test_biases_are_not_zero(tmp_path: Path) -> None:
    write_seeded(small("Qwen2.5-7B"), tmp_path / "made", "float32", 1)
    biases = [value for name, value in values(tmp_path / "made").items() if name.endswith("bias")]
    assert len(biases) == 9 and all(np.all(value != 0) for value in biases)


@pytest.mark.parametrize("count", range(1, 9))
def test_tensors_are_divided_in_order_and_every_file_has_some(count: int) -> None:
    shapes = {"huge": (1000, 10), **{f"t{i}": (10, 10) for i in range(6)}, "large": (300, 10)}
    files = divided(shapes, count)
    assert len(files) == count and all(files.values())
    assert [name for names in files.values() for name in names] == list(shapes)


def test_files_are_about_the_same_size(tmp_path: Path) -> None:
    write_seeded(small("Qwen3-8B", num_hidden_layers=12), tmp_path / "made", "bfloat16", 4)
    files = sorted((tmp_path / "made").glob("*.safetensors"))
    assert [file.name for file in files] == [f"model-0000{part}-of-00004.safetensors" for part in (1, 2, 3, 4)]
    assert max(file.stat().st_size for file in files) < 1.2 * min(file.stat().st_size for file in files)
    index = json.loads((tmp_path / "made" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(value.nbytes // 2 for value in values(tmp_path / "made").values())


def test_a_header_is_padded_to_a_multiple_of_8_and_states_gapless_offsets() -> None:
    shapes = {"a": (3, 5), "b": (7,)}
    for dtype, size in SIZES.items():
        text = header(shapes, shapes, dtype)
        assert len(text) % 8 == 0 and int.from_bytes(text[:8], "little") == len(text) - 8
        entries = json.loads(text[8:])
        assert entries["a"]["data_offsets"] == [0, 15 * size] and entries["b"]["data_offsets"] == [15 * size, 22 * size]


@pytest.mark.parametrize("piece", [b"", b"12345678"], ids=["too few", "too many"])
def test_blocks_that_do_not_make_up_their_tensor_are_the_harness_fault(piece: bytes, tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="do not make up its shape") as caught:
        write_shards(tmp_path, {"a": (1,)}, "F32", 1, lambda _: [lambda: piece])
    assert caught.value.fault == "harness bug"


@pytest.mark.parametrize(
    ("changed", "dtype", "shards", "seed", "rule"),
    [
        ({"num_hidden_layers": None}, "float32", 1, 0, "fields are missing"),
        ({"model_type": "gemma"}, "float32", 1, 0, "unknown model_type"),
        ({"vocab_size": 30}, "float32", 1, 0, "no room for its special rows"),
        ({}, "float64", 1, 0, "unknown dtype"),
        ({}, "float32", 0, 0, "every shard needs a tensor"),
        ({}, "float32", 99, 0, "every shard needs a tensor"),
        ({}, "float32", 1, -1, "a seed is not negative"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(
    changed: dict[str, Any], dtype: str, shards: int, seed: int, rule: str, tmp_path: Path
) -> None:
    with pytest.raises(ParityError, match=rule):
        write_seeded(small("Qwen3-8B") | changed, tmp_path / "made", dtype, shards, seed)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine").write_text("kept")
    with pytest.raises(ParityError, match="the directory exists"):
        write_seeded(small("Qwen3-8B"), tmp_path / "made", "float32", 1)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["mine"]


@pytest.mark.slow
def test_a_file_that_cannot_grow_leaves_nothing_and_exits_2(tmp_path: Path) -> None:
    limited = (
        "import resource, signal, sys; from qwen3_reference.checkpoints.seeded import main; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2); "
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", limited, "Qwen3-0.6B", str(tmp_path / "made"), "--shards", "3"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "the checkpoint cannot be written" in ended.stderr and "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_exits_2_for_a_name_that_no_model_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Qwen3-9B", str(tmp_path / "made")]) == 2
    assert "Qwen3-8B" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


WATCHED = """
import sys, threading, time
from qwen3_reference.checkpoints.seeded import main

def anonymous():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1])

def watch():
    while True:
        seen.append(anonymous())
        time.sleep(0.01)

seen = [anonymous()]
threading.Thread(target=watch, daemon=True).start()
code = main(sys.argv[1:])
print("grown", (max(seen) - seen[0]) // 1024, len(seen))
sys.exit(code)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WATCHED, "Qwen3-0.6B", str(tmp_path / "made"), "--shards", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    grown, samples = map(int, ended.stdout.rsplit("grown ", 1)[1].split())
    assert samples > 50 and grown < 100  # MB; the checkpoint has 1192
