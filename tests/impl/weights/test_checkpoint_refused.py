"""A checkpoint that is damaged or somebody else's is refused by both loaders, ours and the reference's, by name.

What one loader alone must say stands in test_qwen3_checkpoint.py and test_weights.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from qwen3_encdec import initialize_from_qwen3
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_parity.cli import main
from qwen3_reference.checkpoints.weights import load_weights

SINGLE, SHARDED, TIED = "even-window", "window-encoder", "tied-decoder"
WEIGHTS, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
NORM, MLP = "model.layers.1.self_attn.k_norm.weight", "model.layers.0.mlp.up_proj.weight"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
FIRST, SECOND = (f"model-0000{n}-of-00002.safetensors" for n in (1, 2))

Tensors = dict[str, torch.Tensor]
Json = dict[str, Any]


@dataclass(frozen=True)
class Damage:
    """What becomes of a copy of a committed checkpoint, and what each loader must name."""

    checkpoint: str
    spoil: Callable[[Path], object]
    named: tuple[str, ...]


def tensors(change: Callable[[Tensors], object]) -> Callable[[Path], None]:
    def spoil(directory: Path) -> None:
        held = load_file(directory / WEIGHTS)
        change(held)
        save_file({name: tensor.contiguous() for name, tensor in held.items()}, directory / WEIGHTS)

    return spoil


def one(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    return tensors(lambda held: held.update({name: change(held[name])}))


def with_value(value: float, at: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.clone().index_fill(0, torch.tensor([at]), value)


def edited(file: str, change: Callable[[Json], Json]) -> Callable[[Path], None]:
    def spoil(directory: Path) -> None:
        content = change(json.loads((directory / file).read_text()))
        (directory / file).write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))

    return spoil


def configured(**fields: Any) -> Callable[[Path], None]:
    return edited(CONFIG, lambda content: content | fields)


def indexed(change: Callable[[dict[str, str]], Any]) -> Callable[[Path], None]:
    return edited(INDEX, lambda content: content | {"weight_map": change(content["weight_map"])})


def doubled(file: str, before: str, member: str) -> Callable[[Path], None]:
    """Write a member of a JSON object a second time, in front of those behind `before`."""

    def spoil(directory: Path) -> None:
        text = (directory / file).read_text()
        (directory / file).write_text(text.replace(before, before + member, 1))

    return spoil


def cut(end: Callable[[int, list[int]], int]) -> Callable[[Path], None]:
    """Keep `end(where the data begins, where each tensor's ends, sorted)` bytes of the weights."""

    def spoil(directory: Path) -> None:
        content, header = _header(directory / WEIGHTS)
        ends = sorted(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        start = 8 + int.from_bytes(content[:8], "little")
        (directory / WEIGHTS).write_bytes(content[: end(start, [start + one for one in ends])])

    return spoil


def _header(path: Path) -> tuple[bytes, Json]:
    content = path.read_bytes()
    return content, json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def entered_twice(directory: Path) -> None:
    """A second entry of one name in the header."""
    content, header = _header(directory / WEIGHTS)
    start = 8 + int.from_bytes(content[:8], "little")
    text = (json.dumps(header)[:-1] + f", {json.dumps(NORM)}: {json.dumps(header[NORM])}}}").encode()
    text += b" " * (-len(text) % 8)
    (directory / WEIGHTS).write_bytes(len(text).to_bytes(8, "little") + text + content[start:])


def stored_twice(directory: Path) -> None:
    """A tensor of the first shard in the second one, too."""
    held = load_file(directory / SECOND)
    name, tensor = next(iter(load_file(directory / FIRST).items()))
    save_file({**held, name: tensor}, directory / SECOND)


def written(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda directory: (directory / file).write_bytes(change((directory / file).read_bytes()))


def pickled(directory: Path) -> None:
    (directory / WEIGHTS).rename(directory / "pytorch_model.bin")


def emptied(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


DAMAGES = {
    "missing": Damage(SINGLE, tensors(lambda held: held.pop(NORM)), ("missing", NORM)),
    "extra": Damage(SINGLE, tensors(lambda t: t.update({"model.layers.1.mlp.bias": torch.ones(2)})), ("mlp.bias",)),
    "renamed": Damage(SINGLE,
        tensors(lambda held: held.update({"model.layers.1.self_attn.key_norm.weight": held.pop(NORM)})),
        (NORM, "model.layers.1.self_attn.key_norm.weight")),
    "prefix twice": Damage(SINGLE, tensors(lambda held: [held.update({f"model.{n}": held.pop(n)}) for n in list(held)]),
        (f"model.{NORM}",)),
    "no prefix": Damage(SINGLE,
        tensors(lambda held: [held.update({n.removeprefix("model."): held.pop(n)}) for n in list(held)]),
        (NORM, "layers.1.self_attn.k_norm.weight")),
    "transposed": Damage(SINGLE, one(MLP, lambda w: w.T), (MLP, "(70, 40)", "(40, 70)")),
    "flat": Damage(SINGLE, one(MLP, lambda w: w.reshape(-1)), (MLP, "(70, 40)", "(2800,)")),
    "rows of the tokenizer": Damage(SINGLE, one(EMBEDDING, lambda w: w[:-3]), (EMBEDDING, "(231, 40)", "(228, 40)")),
    "entered twice": Damage(SINGLE, entered_twice, (NORM, WEIGHTS, "twice")),
    "integers": Damage(SINGLE, one(NORM, lambda w: w.to(torch.int32)), (NORM, WEIGHTS)),
    "truth values": Damage(SINGLE, one(NORM, lambda w: w > 1), (NORM, WEIGHTS)),
    "NaN": Damage(SINGLE, one(NORM, with_value(float("nan"), 7)), (NORM, WEIGHTS, "nan", "[7]")),
    "infinity": Damage(SINGLE, one(NORM, with_value(float("-inf"), 7)), (NORM, WEIGHTS, "-inf", "[7]")),
    "another head": Damage(TIED, one(HEAD, lambda w: w + 1), (HEAD, EMBEDDING)),
    "mistral": Damage(SINGLE, configured(model_type="mistral"), (CONFIG, "model_type", "mistral", "qwen3")),
    "gemma": Damage(SINGLE, configured(model_type="gemma3_text"), (CONFIG, "model_type", "gemma3_text")),
    "qwen3_moe": Damage(SINGLE, configured(model_type="qwen3_moe", num_experts=4), (CONFIG, "qwen3_moe")),
    "qwen2_moe": Damage(SINGLE, configured(model_type="qwen2_moe", num_experts=4), (CONFIG, "qwen2_moe")),
    "no model_type": Damage(SINGLE, configured(model_type=...), (CONFIG, "model_type", "None")),
    "qwen2 said to be qwen3": Damage("qwen2-decoder", configured(model_type="qwen3", head_dim=8), ("k_norm", "bias")),
    "qwen3 said to be qwen2": Damage(SINGLE, configured(model_type="qwen2"), ("k_proj.bias", "k_norm")),
    "no head_dim": Damage(SINGLE, configured(head_dim=...), (CONFIG, "head_dim")),
    "no rope_theta": Damage(SINGLE, configured(rope_theta=...), (CONFIG, "rope_theta")),
    "theta as text": Damage(SINGLE, configured(rope_theta="1e6"), (CONFIG, "rope_theta", "1e6")),
    "eps as text": Damage(SINGLE, configured(rms_norm_eps="1e-06"), (CONFIG, "rms_norm_eps", "1e-06")),
    "untied without a head": Damage("window-decoder", tensors(lambda held: held.pop(HEAD)), ("missing", HEAD)),
    "a head_dim of 9": Damage(SINGLE, configured(head_dim=9), (CONFIG, "head_dim")),
    "heads as text": Damage(SINGLE, configured(num_attention_heads="six"), (CONFIG, "num_attention_heads")),
    "config of a list": Damage(SINGLE, written(CONFIG, lambda _: b"[]"), (CONFIG,)),
    "config of no text": Damage(SINGLE, written(CONFIG, lambda _: b"\xff"), (CONFIG,)),
    "weights of no header": Damage(SINGLE, written(WEIGHTS, lambda _: b"\xff" * 64), (WEIGHTS,)),
    "weights of no bytes": Damage(SINGLE, written(WEIGHTS, lambda _: b""), (WEIGHTS,)),
    "bytes behind the last tensor": Damage(SINGLE, written(WEIGHTS, lambda content: content + b"\0" * 8), (WEIGHTS,)),
    "stored in both shards": Damage(SHARDED, stored_twice, ("stored twice",)),
    "no config": Damage(SINGLE, lambda directory: (directory / CONFIG).unlink(), (CONFIG,)),
    "broken config": Damage(SINGLE, lambda directory: (directory / CONFIG).write_text("{"), (CONFIG, "JSON")),
    "cut in the length": Damage(SINGLE, cut(lambda start, ends: 4), (WEIGHTS,)),
    "cut in the header": Damage(SINGLE, cut(lambda start, ends: start // 2), (WEIGHTS,)),
    "cut behind the header": Damage(SINGLE, cut(lambda start, ends: start), (WEIGHTS,)),
    "cut between tensors": Damage(SINGLE, cut(lambda start, ends: ends[5]), (WEIGHTS,)),
    "cut in a tensor": Damage(SINGLE, cut(lambda start, ends: ends[5] + 3), (WEIGHTS,)),
    "cut in the last byte": Damage(SINGLE, cut(lambda start, ends: ends[-1] - 1), (WEIGHTS,)),
    "one shard cut": Damage(SHARDED, lambda d: (d / SECOND).write_bytes((d / SECOND).read_bytes()[:-1]), (SECOND,)),
    "one shard gone": Damage(SHARDED, lambda directory: (directory / SECOND).unlink(), (SECOND,)),
    "index of a file that is not there": Damage(SHARDED,
        indexed(lambda m: {n: s if s == FIRST else "none.safetensors" for n, s in m.items()}), ("none.safe",)),
    "index into the other shard": Damage(SHARDED, indexed(lambda m: m | {NORM: FIRST if m[NORM] == SECOND else SECOND}),
        (INDEX, NORM)),
    "index with a name twice": Damage(SHARDED, doubled(INDEX, '"weight_map": {', f'"{NORM}": "{FIRST}", '),
        (INDEX, "twice", NORM)),
    "config with a key twice": Damage(SINGLE, doubled(CONFIG, "{", '"rms_norm_eps": 1.0, '),
        (CONFIG, "twice", "rms_norm_eps")),
    "index without a tensor": Damage(SHARDED, indexed(lambda m: {n: s for n, s in m.items() if n != NORM}),
        (INDEX, NORM)),
    "index of a tensor too many": Damage(SHARDED, indexed(lambda m: m | {"model.x": FIRST}), (INDEX, "model.x")),
    "index out of the folder": Damage(SHARDED, indexed(lambda m: {n: f"../{SHARDED}/{s}" for n, s in m.items()}),
        (INDEX, f"../{SHARDED}/{FIRST}")),
    "index of a list": Damage(SHARDED, indexed(lambda m: list(m)), (INDEX, "weight_map")),
    "index without a map": Damage(SHARDED, edited(INDEX, lambda content: {"metadata": {}}), (INDEX, "weight_map")),
    "index of numbers": Damage(SHARDED, indexed(lambda m: dict.fromkeys(m, 1)), (INDEX, "weight_map")),
    "broken index": Damage(SHARDED, lambda directory: (directory / INDEX).write_text("{"), (INDEX, "JSON")),
    "pickles alone": Damage(SINGLE, pickled, (WEIGHTS, INDEX)),
    "an empty folder": Damage(SINGLE, emptied, (CONFIG,)),
    "no folder": Damage(SINGLE, shutil.rmtree, (CONFIG,)),
}  # fmt: skip


@pytest.fixture
def spoilt(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Damage, Path]:
    damage = DAMAGES[request.param]
    directory = Path(shutil.copytree(GOLDEN_ROOT / "checkpoints" / damage.checkpoint, tmp_path / damage.checkpoint))
    damage.spoil(directory)
    return damage, directory


def unnamed(message: str, damage: Damage) -> list[str]:
    return [word for word in damage.named if word not in message]


every_damage = pytest.mark.parametrize("spoilt", DAMAGES, indirect=True)


@every_damage
def test_our_loader_refuses_it_by_name(spoilt: tuple[Damage, Path]) -> None:
    damage, directory = spoilt
    with pytest.raises(ValueError) as caught:
        load_qwen3(directory)
    assert unnamed(str(caught.value), damage) == [], str(caught.value)


@every_damage
def test_the_reference_refuses_it_by_name(spoilt: tuple[Damage, Path]) -> None:
    damage, directory = spoilt
    with pytest.raises(ParityError) as caught:
        load_weights(None, directory)
    assert unnamed(str(caught.value), damage) == [], str(caught.value)
    assert caught.value.fault == "input"


@every_damage
def test_initialisation_refuses_it_in_the_same_words(spoilt: tuple[Damage, Path]) -> None:
    damage, directory = spoilt
    with pytest.raises(ValueError) as caught:
        initialize_from_qwen3(str(directory), num_sentinel_tokens=2)
    assert unnamed(str(caught.value), damage) == [], str(caught.value)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("command", ["capture", "record", "weights initialize"])
@every_damage
def test_a_command_says_so_in_one_message_and_writes_nothing(
    spoilt: tuple[Damage, Path], command: str, tmp_path: Path
) -> None:
    damage, directory = spoilt
    out = tmp_path / "out"
    arguments = {
        "capture": ["--model", directory, "--target-ids", "1,2,3", "--out", out],
        "record": ["decoder/window_even", "--model", directory, "--out", out / "x.pb"],
        "weights initialize": ["--model", directory, "--out", out, "--num-sentinel-tokens", "2", "--verify"],
    }
    result = CliRunner().invoke(main, [*command.split(), *map(str, arguments[command])])
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.output
    named = damage.named if (directory / CONFIG).is_file() else (directory.name,)  # no checkpoint: commands say where
    assert [word for word in named if word not in result.output] == [], result.output
    assert "Traceback" not in result.output
    assert not [path for path in out.rglob("*") if path.is_file()] and not list(tmp_path.glob(".*"))


def test_the_same_folders_undamaged_are_accepted() -> None:
    for name in {damage.checkpoint for damage in DAMAGES.values()}:
        load_qwen3(GOLDEN_ROOT / "checkpoints" / name)
        load_weights(None, GOLDEN_ROOT / "checkpoints" / name)
