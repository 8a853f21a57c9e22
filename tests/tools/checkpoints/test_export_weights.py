"""A checkpoint as protobuf files: what is written, that any library reads it, and what is refused.

It runs `weights.export`, `checkpoints.show_weights`, `checkpoints.weight_remarks`, too.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from parts_on_disk import CHECKPOINTS, COMMITTED, parts_of, safetensors

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read, read_parts, verify_weights
from qwen3_golden.probe import probe
from qwen3_golden.wire import MAX_FILE_BYTES
from qwen3_parity.checkpoints.export_weights import export_weights, plan
from qwen3_parity.cli import main
from qwen3_parity.text.ours import read_tokenizer
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.stored import read_directory
from qwen3_reference.checkpoints.weights import checkpoint_message

TINY = GOLDEN_ROOT / "tokenizers" / "tiny"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", COMMITTED)
def test_every_tensor_is_there_as_it_is_stored(name: str, committed_export: Callable[[str], Path]) -> None:
    stored = read_directory(CHECKPOINTS / name)
    parts = read_parts(committed_export(name))
    exported = {item.info.name: item for part in parts for item in part}
    assert exported.keys() == stored.keys()
    for tensor, item in exported.items():
        assert item.info.dtype == stored[tensor].dtype
        assert item.array.tobytes() == stored[tensor].bits.tobytes() and item.array.shape == stored[tensor].bits.shape
        assert item.info.probe == probe(item.array, item.info.dtype).value
    for part in parts:
        verify_weights(part)


@pytest.mark.parametrize("name", COMMITTED)
def test_each_part_says_what_it_is_a_part_of(name: str, committed_export: Callable[[str], Path]) -> None:
    folder = committed_export(name)
    parts = read_parts(folder)
    for number, part in enumerate(parts, 1):
        assert Path(part.source).name == f"weights-{number:05}-of-{len(parts):05}.pb"
        assert (part.weights.part, part.weights.parts) == (number, len(parts))
        assert part.case.mode == pb.WEIGHTS and part.case.name == f"weights/{name}"
        assert part.case.config == model_config(CHECKPOINTS / name)
        assert list(part.case.checkpoint) == [checkpoint_message("weights", CHECKPOINTS / name, name)]
        assert (part.run.arithmetic, part.run.backend) == (pb.ARITHMETIC_NONE, pb.BACKEND_NONE)
        placed = [place.name for place in part.weights.place]
        assert placed == sorted(placed) == sorted(read_directory(CHECKPOINTS / name))
        assert bool(part.weights.file) == (number == 1)


def test_axes_say_what_a_dimension_counts(committed_export: Callable[[str], Path]) -> None:
    axes = {
        t.info.name: (list(t.info.axes), list(t.info.shape)) for p in read_parts(committed_export("biased")) for t in p
    }
    layer = "model.layers.0"
    assert axes["model.embed_tokens.weight"][0] == ["vocab", "hidden"]
    assert axes[f"{layer}.self_attn.q_proj.weight"][0] == ["q_channel", "hidden"]
    assert axes[f"{layer}.self_attn.k_proj.weight"] == (["kv_channel", "hidden"], [20, 40])
    assert axes[f"{layer}.self_attn.v_proj.bias"] == (["kv_channel"], [20])
    assert axes[f"{layer}.self_attn.o_proj.weight"][0] == ["hidden", "q_channel"]
    assert axes[f"{layer}.self_attn.k_norm.weight"] == (["head_dim"], [10])
    assert axes[f"{layer}.mlp.down_proj.weight"][0] == ["hidden", "intermediate"]
    assert axes["model.norm.weight"][0] == ["hidden"]


def test_tensors_stand_in_network_order(committed_export: Callable[[str], Path]) -> None:
    names = [item.info.name for part in read_parts(committed_export("tied-decoder")) for item in part]
    assert names[0] == "model.embed_tokens.weight" and names[-2:] == ["model.norm.weight", "lm_head.weight"]
    layers = [int(name.split(".")[2]) for name in names if ".layers." in name]
    assert layers == sorted(layers)


def test_a_stock_protobuf_library_finds_the_bytes_of_every_tensor(committed_export: Callable[[str], Path]) -> None:
    stored = read_directory(CHECKPOINTS / "bfloat16")
    for path in parts_of(committed_export("bfloat16")):
        message = pb.Recording()
        message.ParseFromString(path.read_bytes())
        assert len(message.payload) == len(message.tensor) == message.end.tensors
        for info, payload in zip(message.tensor, message.payload, strict=True):
            assert payload == stored[info.name].bits.tobytes()


def test_the_recipe_of_the_readme_verifies_a_part_by_plain_loops(committed_export: Callable[[str], Path]) -> None:
    for path in parts_of(committed_export("bfloat16"))[:2] + parts_of(committed_export("biased"))[:2]:
        message = pb.Recording.FromString(path.read_bytes())
        for info, payload in zip(message.tensor, message.payload, strict=True):
            if info.dtype == pb.BF16:
                values = (np.frombuffer(payload, "<u2").astype("<u4") << 16).view("<f4")
            else:
                values = np.frombuffer(payload, "<f4")
            columns, total, scale = info.shape[-1], 0.0, 0.0
            for number, value in enumerate(values.tolist()):
                term = value * (1 + number // columns % 61) * (1 + number % columns % 67)
                total, scale = total + term, scale + abs(term)
            assert abs(total - info.probe) <= 1e-9 * scale


def test_every_payload_stands_at_a_multiple_of_64(committed_export: Callable[[str], Path]) -> None:
    for path in parts_of(committed_export("bfloat16")):
        content = path.read_bytes()
        for payload in pb.Recording.FromString(content).payload:
            position = content.find(payload)
            while position % 64 and position >= 0:  # a small tensor may also stand within another
                position = content.find(payload, position + 1)
            assert position > 0


def test_another_process_with_nothing_but_the_schema_reads_a_part(exported: Path) -> None:
    program = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("golden_pb2", sys.argv[1])
pb = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pb)
message = pb.Recording.FromString(open(sys.argv[2], "rb").read())
assert not any(name.startswith(("qwen3", "numpy")) for name in sys.modules)
print(message.weights.part, message.weights.parts, *(t.name for t in message.tensor))
"""
    schema = GOLDEN_ROOT / "qwen3_golden" / "golden_pb2.py"
    out = subprocess.run(
        [sys.executable, "-c", program, schema, parts_of(exported)[1]], capture_output=True, text=True, check=True
    ).stdout
    part = read_parts(exported)[1]
    assert out.split() == ["2", str(part.weights.parts), *(item.info.name for item in part)]


@pytest.mark.parametrize("part_bytes", [1, 10_000, 60_000, 120_000, MAX_FILE_BYTES])
def test_no_part_is_larger_than_asked_unless_it_holds_one_tensor(part_bytes: int, tmp_path: Path) -> None:
    summary = export_weights(CHECKPOINTS / "window-encoder", tmp_path / "e", "x", part_bytes)
    paths = parts_of(tmp_path / "e")
    assert summary.parts == len(paths) and (summary.parts == 1) == (part_bytes == MAX_FILE_BYTES)
    for path in paths:
        assert path.stat().st_size <= part_bytes or len(read(path).tensors) <= 1


def test_parts_that_must_stay_small_hold_one_tensor_each(tmp_path: Path) -> None:
    summary = export_weights(CHECKPOINTS / "window-encoder", tmp_path / "e", "x", 1)
    assert [len(part.tensors) for part in read_parts(tmp_path / "e")] == [0] + [1] * summary.tensors


def test_the_plan_fills_parts_in_order() -> None:
    sizes = {"a": 1000, "b": 1000, "c": 1000, "d": 5000, "e": 1}
    assert plan(sizes, 3100, 1600, 1 << 31) == [["a"], ["b", "c"], ["d"], ["e"]]
    assert plan(sizes, 3100, 100, 1 << 31) == [[], ["a", "b"], ["c"], ["d"], ["e"]]


@pytest.mark.parametrize("gigabytes", [1.2, 1.9])
def test_a_tensor_below_2_31_bytes_has_a_part_of_its_own(gigabytes: float) -> None:
    sizes = {"a": 1000, "big": int(gigabytes * 2**30), "c": int(1e9), "d": int(1.1e9)}
    assert plan(sizes, MAX_FILE_BYTES - 9000, MAX_FILE_BYTES - 10**7, MAX_FILE_BYTES - 9000)[0][:1] == ["a"]
    for part in plan(sizes, MAX_FILE_BYTES - 9000, MAX_FILE_BYTES - 10**7, MAX_FILE_BYTES - 9000):
        assert sum(sizes[name] for name in part) < MAX_FILE_BYTES - 9000


def test_a_tensor_that_fits_no_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    source = tmp_path / "wide"
    source.mkdir()
    config = json.loads((CHECKPOINTS / "even-window" / "config.json").read_text())
    rows = 2**31 // (4 * config["hidden_size"]) + 1
    (source / "config.json").write_text(json.dumps(config | {"vocab_size": rows}))
    header, offset = {}, 0
    for name, tensor in read_directory(CHECKPOINTS / "even-window").items():
        shape = (
            [rows, tensor.bits.shape[1]] if tensor.bits.shape[0] == config["vocab_size"] else list(tensor.bits.shape)
        )
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with (source / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(file.tell() + offset)  # a hole: it takes no space
    with pytest.raises(ParityError, match=r"embed_tokens\.weight: a tensor is larger than a file can be"):
        export_weights(source, tmp_path / "out", "wide")
    assert names(tmp_path) == ["wide"]


def test_a_tokenizer_is_exported_along(tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "tied-decoder", tmp_path / "model")
    shutil.copytree(TINY, source, dirs_exist_ok=True)
    result = run("weights", "export", "--model", source, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    message = pb.Tokenizer.FromString((tmp_path / "out" / "tokenizer.pb").read_bytes())
    assert len(message.merge) == len(read_tokenizer(TINY).files.merges)
    names = {file.name for file in read_parts(tmp_path / "out")[0].weights.file}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names


def test_other_files_of_the_directory_are_left_out_and_named(tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "tied-decoder", tmp_path / "model")
    (source / "README.md").write_text("words")
    (source / "old.safetensors").write_bytes(b"not of the checkpoint")
    (source / "folder.jinja").mkdir()
    result = run("weights", "export", "--model", source, "--out", tmp_path / "out")
    assert result.exit_code == 0 and "left out: README.md, folder.jinja, old.safetensors" in result.output
    assert [f.name for f in read_parts(tmp_path / "out")[0].weights.file] == ["config.json", "model.safetensors"]


def test_a_weight_file_whose_name_could_not_come_back_is_refused(tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "window-encoder", tmp_path / "model")
    (source / "model-00002-of-00002.safetensors").rename(source / "model 2.safetensors")
    index = source / "model.safetensors.index.json"
    index.write_text(index.read_text().replace("model-00002-of-00002", "model 2"))
    with pytest.raises(ParityError, match="unusual name"):
        export_weights(source, tmp_path / "out", "x")


def constant(name: str, value: float, directory: Path) -> Path:
    """A copy of a committed checkpoint with one tensor that is the same everywhere."""
    shutil.copytree(CHECKPOINTS / "even-window", directory)
    stored = read_directory(directory)
    tensors = {n: np.full_like(tensor.bits, value) if n == name else tensor.bits for n, tensor in stored.items()}
    (directory / "model.safetensors").write_bytes(safetensors(tensors, "F32"))
    return directory


@pytest.mark.parametrize(("value", "says"), [(0.0, "0 everywhere"), (1.0, "1 everywhere"), (np.nan, "NaN or infinity")])
def test_a_tensor_of_equal_elements_is_reported_and_not_refused(value: float, says: str, tmp_path: Path) -> None:
    name = "model.layers.1.self_attn.v_proj.weight"
    source = constant(name, value, tmp_path / "model")
    for arguments in (
        ("weights", "export", "--model", source, "--out", tmp_path / "e"),
        ("weights", "import", tmp_path / "e", "--out", tmp_path / "i"),
    ):
        result = run(*arguments)
        lines = [line for line in result.output.splitlines() if line.startswith(("constant:", "not finite:"))]
        assert result.exit_code == 0 and len(lines) == 1 and name in lines[0] and says in lines[0], result.output


def test_no_committed_checkpoint_has_a_constant_tensor(tmp_path: Path) -> None:
    for name in COMMITTED:
        assert not export_weights(CHECKPOINTS / name, tmp_path / name, name).remarks


def test_exporting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("1", "2"):
        export_weights(CHECKPOINTS / "window-encoder", tmp_path / name, "x", 60_000)
    for first, second in zip(parts_of(tmp_path / "1"), parts_of(tmp_path / "2"), strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    options = ("--out", tmp_path / "a" / "e", "--part-bytes", 60000)
    result = run("weights", "export", "--model", CHECKPOINTS / "window-encoder", *options)
    assert result.exit_code == 0
    digest = checkpoint_message("weights", CHECKPOINTS / "window-encoder", "x").sha256.hex()
    assert "36 tensors in 6 parts" in result.output and digest in result.output


@pytest.mark.parametrize(
    "arguments", [(), ("--model", "a", "--tokenizer", "b"), ("--tokenizer", "b", "--part-bytes", 9)]
)
def test_the_command_wants_a_model_or_a_tokenizer(arguments: tuple[object, ...], tmp_path: Path) -> None:
    result = run("weights", "export", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "--model" in result.output and not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_whatever_stands_at_out_is_refused_and_stays(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    mine = out / "mine" if kind == "folder" else out
    mine.parent.mkdir(exist_ok=True)
    out.symlink_to("nowhere") if kind == "link" else mine.write_text("mine")
    result = run("weights", "export", "--model", CHECKPOINTS / "tied-decoder", "--out", out)
    assert result.exit_code == 2 and "there is something here already" in result.output
    assert names(tmp_path) == ["out"] and (kind == "link" or mine.read_text() == "mine")


def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def full(file: int) -> None:
        synced.append(file)
        if len(synced) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = run(
        "weights", "export", "--model", CHECKPOINTS / "window-encoder", "--out", tmp_path / "out", "--part-bytes", 60000
    )
    assert result.exit_code == 2 and "No space left" in result.output and len(synced) == 3
    assert names(tmp_path) == []


def test_an_interrupted_export_leaves_nothing(tmp_path: Path) -> None:
    def stop(text: str) -> None:
        if text.startswith("writing part 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_weights(CHECKPOINTS / "window-encoder", tmp_path / "out", "x", 60_000, stop)
    assert names(tmp_path) == []


def test_a_checkpoint_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "even-window", tmp_path / "model")
    weights = source / "model.safetensors"

    def write_to_it(text: str) -> None:
        if text.startswith("writing part 1"):
            with weights.open("r+b") as file:
                file.seek(-4, os.SEEK_END)
                file.write(b"\x12\x34\x56\x78")

    with pytest.raises(ParityError, match="has changed while it was exported"):
        export_weights(source, tmp_path / "out", "x", progress=write_to_it)
    assert names(tmp_path) == ["model"]


def test_an_exported_checkpoint_is_not_exported_again(exported: Path, tmp_path: Path) -> None:
    result = run("weights", "export", "--model", exported, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "qwen3-parity weights import" in result.output and not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["missing", "extra", "shape", "index", "shard"])
def test_a_checkpoint_that_is_not_whole_is_refused_by_name(damage: str, tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "window-encoder", tmp_path / "model")
    file = source / "model-00002-of-00002.safetensors"
    index = source / "model.safetensors.index.json"
    tensors = {n: t.bits for n, t in read_directory(source).items() if t.file.name == file.name}
    name = "model.layers.2.self_attn.k_norm.weight"
    if damage == "missing":
        del tensors[name]
    elif damage == "extra":
        name = "model.layers.9.self_attn.k_norm.weight"
        tensors[name] = np.ones(10, "<f4")
    elif damage == "shape":
        tensors[name] = np.ones((2, 5), "<f4")
    elif damage == "index":
        index.write_text(index.read_text().replace(f'"{name}": "model-00002', f'"{name}": "model-00001'))
    file.write_bytes(safetensors(tensors, "F32"))
    if damage in ("missing", "extra"):
        weight_map = json.loads(index.read_text())["weight_map"]
        weight_map.pop(name, None)
        index.write_text(json.dumps({"weight_map": weight_map | ({name: file.name} if damage == "extra" else {})}))
    if damage == "shard":
        file.unlink()
        name = file.name
    result = run("weights", "export", "--model", source, "--out", tmp_path / "out")
    assert result.exit_code == 2 and name in result.output, result.output
    assert names(tmp_path) == ["model"]


def test_show_prints_the_part_its_tensors_and_their_probes(exported: Path) -> None:
    part = read_parts(exported)[0]
    result = run("show", part.source)
    assert result.exit_code == 0
    assert "part 1 of 6; 36 tensors in all; files: config.json, model-00001-of-00002.safetensors" in result.output
    for item in part:
        assert item.info.name in result.output and f"{item.info.probe:.9g}" in result.output
    assert "vocab hidden" in result.output


@pytest.mark.parametrize("command", ["check", "diagnose", "record"])
def test_a_part_is_no_run_to_be_judged(command: str, exported: Path, tmp_path: Path) -> None:
    part, golden = parts_of(exported)[0], GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb"
    pairs = [[part]] if command == "record" else [[part], [golden, part], [part, golden], [part, part]]
    for files in pairs:
        result = run(command, *files)
        assert result.exit_code == 2 and "a part of an exported checkpoint, not a run" in result.output, result.output


def test_an_empty_folder_at_out_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    result = run("weights", "export", "--model", CHECKPOINTS / "tied-decoder", "--out", tmp_path / "out")
    assert result.exit_code == 0 and names(tmp_path / "out")
