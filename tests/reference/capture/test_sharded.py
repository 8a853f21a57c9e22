"""One model over several processes under torchrun: recordings that pass `check` against those of one process."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed as dist

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, place, read, table
from qwen3_parity.check import check_run
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.capture import sharded
from qwen3_reference.capture.models import load_in_memory, load_reference
from qwen3_reference.capture.record import record_request
from qwen3_reference.capture.sharded_processes import processes
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.sizes import BIASED, QWEN2
from qwen3_reference.checkpoints.tiny import Definition, write_checkpoint
from qwen3_reference.checkpoints.weights import load_weights

HEADS = {"num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 72, "num_hidden_layers": 2}
DEFINITIONS = (
    Definition("tied", 1, 1, HEADS),
    Definition("untied", 2, 2, {**BIASED, **HEADS, "tie_word_embeddings": False}, stores_head=True),
    Definition("qwen2", 3, 3, {**QWEN2, **HEADS, "hidden_size": 64}, stores_head=True),
    Definition("small", 4, 4, {**HEADS, "num_hidden_layers": 1}),
)
WHOLE_MODELS = ("tied", "untied", "qwen2")
JOBS = Path(__file__).with_name("sharded_jobs.py")
VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
Group = Callable[[int, list[dict[str, str]]], subprocess.CompletedProcess[str]]


def _inputs(stack: str, mask: Array, vocab_size: int) -> dict[str, Array]:
    draw = np.random.Generator(np.random.PCG64(len(stack)))
    return {
        f"input.{stack}_input_ids": draw.integers(0, vocab_size, mask.shape),
        f"input.{stack}_attention_mask": mask,
        f"input.{stack}_position_ids": np.maximum(np.cumsum(mask, axis=1) - 1, 0),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of 8 heads and 4 key-value heads, and what one process records of each: padding, decode steps."""
    root = tmp_path_factory.mktemp("sharded")
    right = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    for definition in DEFINITIONS:
        directory = root / "checkpoints" / definition.name
        write_checkpoint(definition, directory)
        vocab = definition.full_config()["vocab_size"]
        given, encoder = _inputs("decoder", right[:, ::-1].copy(), vocab), None
        if definition.name != "small":
            given, encoder = given | _inputs("encoder", right, vocab), directory
        name = f"capture/{definition.name}"
        record_request(encoder, directory, given, (3, 1, 1), root / "one" / f"{definition.name}.pb", name=name)
    return root


def _job(folder: Path, out: str, name: str, mistake: str = "") -> dict[str, str]:
    directory = str(folder / "checkpoints" / name)
    roles = {"decoder": directory} | ({} if name == "small" else {"encoder": directory})
    golden, to = folder / "one" / f"{name}.pb", folder / out / f"{mistake or name}.pb"
    return {"golden": str(golden), "out": str(to), "mistake": mistake, **roles}


@pytest.fixture(scope="module")
def group(folder: Path) -> Group:
    def run(count: int, jobs: list[dict[str, str]]) -> subprocess.CompletedProcess[str]:
        given = folder / f"jobs{count}.json"
        given.write_text(json.dumps(jobs))
        for job in jobs:
            Path(job["out"]).parent.mkdir(exist_ok=True)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
        return subprocess.run([*launch, str(JOBS), str(given)], capture_output=True, text=True, timeout=300)

    return run


@pytest.fixture(scope="module")
def two(folder: Path, group: Group) -> subprocess.CompletedProcess[str]:
    """Everything that two processes do, in one start: honest recordings, mistaken ones, and a process that fails."""
    checkpoints = GOLDEN_ROOT / "checkpoints"
    committed = {
        "golden": str(GOLDEN_ROOT / "cases/encdec/ragged.pb"),
        "out": str(folder / "two" / "ragged.pb"),
        "encoder": str(checkpoints / "tied-encoder"),
        "decoder": str(checkpoints / "tied-decoder"),
    }
    mistaken = [_job(folder, "two", "small", mistake) for mistake in ("order", "fused", "turns", "one fails")]
    return group(2, [*(_job(folder, "two", name) for name in WHOLE_MODELS), committed, *mistaken])


@pytest.fixture(scope="module")
def four(folder: Path, group: Group) -> None:
    done = group(4, [_job(folder, "four", name) for name in WHOLE_MODELS])
    assert done.returncode == 0, done.stderr


def _agree(one: Path, other: Path) -> None:
    for golden, candidate in ((one, other), (other, one)):
        verdicts = check_run(read(golden), read(candidate))  # either way round, whichever of them is released
        assert verdicts.exit_code == 0, verdicts.problems[0]
        assert {item.key for item in read(golden)} == {item.key for item in read(candidate)}


def _parts(folder: Path, name: str, count: int) -> None:
    """Each process had its share of every tap that has heads or channels of its own, and all of the others."""
    recording = read(folder / f"{name}.pb")
    shares = [json.loads((folder / f"{name}.pb.{rank}.json").read_text()) for rank in range(count)]
    cut = 0
    for item in recording:
        if item.info.name.startswith("input.") or item.info.step or item.info.name == "generated_ids":
            continue
        known = place(item.info.name)
        assert known is not None
        own = [
            size // count if {"heads", "kv_heads", "channel", "intermediate"} & {axis} else size
            for axis, size in zip(known.axes, item.array.shape, strict=True)
        ]
        assert all(share[item.info.name] == own for share in shares), item.info.name
        cut += own != list(item.array.shape)
    assert cut > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_MODELS)
def test_two_processes_record_what_one_does(folder: Path, two: Any, name: str) -> None:
    _agree(folder / "one" / f"{name}.pb", folder / "two" / f"{name}.pb")
    _parts(folder / "two", name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_MODELS)
def test_four_processes_record_what_one_and_two_do(folder: Path, two: Any, four: Any, name: str) -> None:
    for other in ("one", "two"):
        _agree(folder / other / f"{name}.pb", folder / "four" / f"{name}.pb")
    _parts(folder / "four", name, 4)


@pytest.mark.slow
def test_two_processes_pass_against_a_committed_golden(folder: Path, two: Any) -> None:
    _agree(GOLDEN_ROOT / "cases/encdec/ragged.pb", folder / "two" / "ragged.pb")
    _parts(folder / "two", "ragged", 2)


@pytest.mark.slow
def test_a_recording_says_how_many_processes_made_it(folder: Path, two: Any) -> None:
    flags = {pair.key: pair.value for pair in read(folder / "two" / "tied.pb").provenance.flags}
    assert flags["tensor_parallel"] == "2"
    assert "tensor_parallel" not in {pair.key for pair in read(folder / "one" / "tied.pb").provenance.flags}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "places", "named"),
    [
        ("fused", {"mlp.gate_proj", "mlp.up_proj"}, "weight.fused_layout"),
        ("turns", {"merged_attn.q_proj"}, "weight.heads_shuffled"),
    ],
)
def test_rows_that_are_cut_wrongly_diverge_and_are_named(
    folder: Path, two: Any, mistake: str, places: set[str], named: str
) -> None:
    golden, candidate = read(folder / "one" / "small.pb"), read(folder / "two" / f"{mistake}.pb")
    found = diagnose(golden, candidate, load_weights(None, folder / "checkpoints" / "small"))
    assert found.verdicts.exit_code == 1
    assert {fault.fault.place.removeprefix("decoder.layers.{layer}.") for fault in found.faults} == places
    assert {fault.name for fault in found.faults} == {named}


@pytest.mark.slow
def test_parts_in_another_order_than_ranks_diverge_and_are_named(folder: Path, two: Any) -> None:
    golden, candidate = read(folder / "one" / "small.pb"), read(folder / "two" / "order.pb")
    found = diagnose(golden, candidate, load_weights(None, folder / "checkpoints" / "small"))
    assert found.verdicts.exit_code == 1
    projections = [fault for fault in found.faults if fault.fault.place.endswith(("q_proj", "gate_proj"))]
    assert [fault.name for fault in projections] == ["weight.shards_shuffled"] * 2


@pytest.mark.slow
def test_a_process_that_fails_ends_all_with_one_message_and_no_golden(
    folder: Path, two: subprocess.CompletedProcess[str]
) -> None:
    assert two.returncode != 0
    assert two.stderr.count("rank 1 fails") == 1 and "[rank" not in two.stderr  # no traceback of either
    assert two.stderr.count("exitcode  : 2") == 2
    assert sorted(path.suffix for path in (folder / "two").glob("*one fails*")) == []
    assert not list((folder / "two").glob(".*"))


@pytest.mark.slow
def test_rank_0_alone_prints(two: subprocess.CompletedProcess[str]) -> None:
    printed = [line for line in two.stdout.splitlines() if line.startswith("recording")]
    assert len(printed) == len(set(printed)) == 8


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def give(**values: str) -> None:
        whole = dict.fromkeys(VARIABLES, "2") | {"RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost"} | values
        for name, value in whole.items():
            monkeypatch.setenv(name, value) if value != "unset" else monkeypatch.delenv(name, raising=False)

    return give


def test_a_whole_environment_says_how_many_processes_there_are(environment: Callable[..., None]) -> None:
    environment()
    assert processes() == 2
    environment(WORLD_SIZE="1", RANK="unset")
    assert processes() == 1
    environment(WORLD_SIZE="unset")
    assert processes() == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("RANK", "LOCAL_RANK", "MASTER_PORT") for value in ("unset", "", "two", "-1")),
        ("WORLD_SIZE", ""),
        ("WORLD_SIZE", "two"),
        ("MASTER_ADDR", "unset"),
        ("MASTER_ADDR", ""),
    ],
)
def test_an_incomplete_environment_is_refused_by_name(environment: Callable[..., None], name: str, value: str) -> None:
    environment(**{name: value})
    with pytest.raises(ParityError, match=name):
        processes()


def test_a_rank_outside_the_group_is_refused(environment: Callable[..., None]) -> None:
    environment(RANK="2")
    with pytest.raises(ParityError, match="RANK below 2"):
        processes()


def test_heads_that_cannot_be_dealt_out_are_refused_with_the_numbers_that_can(checkpoints: Path) -> None:
    config = load_reference(None, checkpoints / "tied-decoder").decoder.config
    sharded.check_divisible(config, 2, "here")
    with pytest.raises(ParityError) as caught:
        sharded.check_divisible(config, 4, "here")
    assert caught.value.expected.endswith("num_attention_heads 6, num_key_value_heads 2, intermediate_size 70")
    assert caught.value.next_step.endswith(": 1, 2")
    with pytest.raises(ParityError) as caught:
        sharded.check_divisible(config, 3, "here")
    assert caught.value.expected.endswith("divides num_key_value_heads 2, intermediate_size 70")


def test_a_plan_that_cuts_nothing_is_noticed(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(sharded, "load_in_memory", lambda *given, distributed_config: load_in_memory(*given))
    with pytest.raises(ParityError, match=r"harness bug: .*q_proj.weight: transformers did not cut this weight"):
        load_reference(None, checkpoints / "tied-decoder", load=sharded.load_sharded)


def test_a_tap_that_is_neither_whole_nor_a_part_is_a_bug_of_the_harness(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    kept: list[str] = []
    sink = sharded.gathered(model_config(checkpoints / "tied-decoder"))(lambda _step, name, _value: kept.append(name))
    sink(0, "decoder.layers.0.merged_attn.q_proj", torch.zeros(1, 1, 60))
    assert kept == ["decoder.layers.0.merged_attn.q_proj"]
    with pytest.raises(ParityError, match=r"harness bug: .*q_proj \(step 1\): axis 2 .*\n.*60 or 30\n.*20"):
        sink(1, "decoder.layers.0.merged_attn.q_proj", torch.zeros(1, 1, 20))


def test_every_axis_along_which_a_network_is_cut_has_a_size(checkpoints: Path) -> None:
    config = model_config(checkpoints / "tied-decoder")
    for row in table():
        sizes = sharded.whole_sizes(row.pattern.replace("{layer}", "0"), config)
        named = {row.axes[number]: size for number, size in sizes.items()}
        expected = {"heads": 6, "kv_heads": 2, "intermediate": 70, "vocab": 211}
        expected |= {"channel": 60 if row.pattern.endswith("q_proj") else 20}
        assert named == {axis: expected[axis] for axis in row.axes if axis in expected}
