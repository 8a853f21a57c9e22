"""An interrupted capture is gone on with where it stopped: same golden, no layer twice, nothing left behind.

It runs `floors.resumed_spec`, too.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

import qwen3_reference.floors.resume as resuming
from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_parity.cli import main
from qwen3_parity.recording import capture as capturing
from qwen3_parity.recording.record import ARITHMETIC
from qwen3_parity.recording.sizes import work_bytes
from qwen3_reference.capture import make_golden, merged_cache, streamed
from qwen3_reference.capture.work_folder import work_folder_of
from qwen3_reference.floors.resume import Pass
from qwen3_spec.sweep import Specification

CHECKPOINT = GOLDEN_ROOT / "checkpoints" / "window-decoder"
SOURCE, TARGET, PREFILL = [[5, 6, 7, 8], [9, 10]], [[1, 2, 3, 4], [5, 6, 7]], 3
LAYERS = 3
IN_A_PASS = 3 * LAYERS
PASSES = 5
"""Hugging Face's, the truth, plain float32, and two by other angles."""
"""The layers of a pass: an encoder's, and a decoder's at each of two steps."""

KILLED = """
import os, signal, sys
from pathlib import Path
import torch
import qwen3_reference.floors.resume as resuming
from qwen3_parity.recording import capture as capturing

torch.set_num_threads(1)
resuming.SECONDS = 0.0
name, tap, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
add = resuming.Pass.add

def killed(self, item):
    add(self, item)
    if (self.name, item.info.name, item.info.step) == (name, tap, step):
        os.kill(os.getpid(), signal.SIGKILL)

resuming.Pass.add = killed
made = capturing.plan(Path(sys.argv[4]), {source}, {target}, prefill={prefill})
capturing.capture(made, Path(sys.argv[5]))
"""


@pytest.fixture(autouse=True)
def _a_file_for_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(resuming, "SECONDS", 0.0)


def plan(**options: Any) -> capturing.Plan:
    return capturing.plan(CHECKPOINT, SOURCE, TARGET, prefill=PREFILL, **options)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The whole golden, made in one go."""
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("whole") / "request.pb"
    capturing.capture(plan(), path)
    return path.read_bytes()


class Counted:
    """How many layers Hugging Face and the specification compute from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: tuple[str, int] | None = None) -> None:
        self.hf = self.spec = 0
        mlp, through = Qwen3MLP.forward, Specification.through

        def forward(module: Any, x: torch.Tensor) -> torch.Tensor:
            if stop == ("hf", self.hf):
                raise KeyboardInterrupt
            self.hf += 1
            hidden_states: torch.Tensor = mlp(module, x)
            return hidden_states

        def computed(run: Specification, names: Sequence[str], *arguments: Any) -> None:
            if ".layers." in names[0]:
                if stop == ("spec", self.spec):
                    raise KeyboardInterrupt
                self.spec += 1
            through(run, names, *arguments)

        monkeypatch.setattr(Qwen3MLP, "forward", forward)
        monkeypatch.setattr(Specification, "through", computed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tap", "step", "finished"),
    [
        pytest.param("run", "encoder.layers.1.self_attn.scores", 0, 1, marks=pytest.mark.slow),
        pytest.param("run", "decoder.layers.1.merged_attn.context", 1, 2 * LAYERS + 1, marks=pytest.mark.slow),
        ("truth", "decoder.layers.1.merged_attn.o_proj", 0, IN_A_PASS + LAYERS + 1),
        pytest.param("sequential", "decoder.layers.2.mlp.act", 1, 3 * IN_A_PASS - 1, marks=pytest.mark.slow),
        pytest.param("below", "decoder.layers.1.mlp.act", 0, 4 * IN_A_PASS + LAYERS + 1, marks=pytest.mark.slow),
    ],
)
def test_a_killed_capture_goes_on_at_the_layer_where_it_stopped(
    name: str, tap: str, step: int, finished: int, uninterrupted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.pb"
    script = KILLED.format(source=SOURCE, target=TARGET, prefill=PREFILL)
    command = [sys.executable, "-c", script, name, tap, str(step), str(CHECKPOINT), str(path)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert list(tmp_path.iterdir()) == [work_folder_of(path)]
    counted = Counted(monkeypatch)
    capturing.capture(plan(), path)
    assert counted.hf + counted.spec == PASSES * IN_A_PASS - finished
    assert path.read_bytes() == uninterrupted
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("stop", [("hf", 2), ("hf", 7), ("spec", 0), ("spec", 4), ("spec", 13)])
def test_a_capture_that_is_broken_off_goes_on_where_it_stopped(
    stop: tuple[str, int], uninterrupted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.pb"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Counted(patch, stop)
        capturing.capture(plan(), path)
    assert list(tmp_path.iterdir()) == [work_folder_of(path)]
    finished = stop[1] + (IN_A_PASS if stop[0] == "spec" else 0)
    counted, lines, layers = Counted(monkeypatch), list[str](), list[tuple[int, int]]()
    capturing.capture(plan(), path, progress=lines.append, layers=lambda *done: layers.append(done))
    assert counted.hf + counted.spec == PASSES * IN_A_PASS - finished
    assert (
        lines[0] == f"going on where it was interrupted: {min(finished, IN_A_PASS)} of {IN_A_PASS} layers are recorded"
    )
    assert [done for done, _ in layers] == sorted(done for done, _ in layers)
    assert layers[-1] == (PASSES * IN_A_PASS, PASSES * IN_A_PASS)
    assert path.read_bytes() == uninterrupted and list(tmp_path.iterdir()) == [path]


def interrupted(path: Path, monkeypatch: pytest.MonkeyPatch, stop: tuple[str, int], **options: Any) -> None:
    """A capture that was broken off."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Counted(patch, stop)
        capturing.capture(plan(**options), path)


@pytest.mark.slow
def test_a_capture_may_be_interrupted_again_and_again(
    uninterrupted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.pb"
    for _ in range(4):
        interrupted(path, monkeypatch, ("hf", 2))
    interrupted(path, monkeypatch, ("spec", 5))
    capturing.capture(plan(), path)
    assert path.read_bytes() == uninterrupted


def test_the_encoders_keys_and_values_are_not_computed_again(
    uninterrupted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.pb"
    interrupted(path, monkeypatch, ("hf", 2 * LAYERS + 1))

    def again(*_: object) -> None:
        raise AssertionError("every layer's were computed before")

    monkeypatch.setattr(merged_cache, "encoder_keys_values", again)
    capturing.capture(plan(), path)
    assert path.read_bytes() == uninterrupted


def test_an_older_golden_stays_until_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "request.pb"
    capturing.capture(plan(taps=("logits",)), path)
    older = path.read_bytes()
    interrupted(path, monkeypatch, ("spec", 4))
    assert path.read_bytes() == older
    capturing.capture(plan(), path)
    assert len(read(path).tensors) > len(older) / 1e5 and path.read_bytes() != older


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("options", [{"taps": ("logits",)}, {"rows": 1}, {"dtype": torch.bfloat16}])
def test_what_a_golden_leaves_out_is_there_to_go_on_from(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capturing.capture(plan(**options), tmp_path / "whole" / "request.pb")
    for stop in (("hf", 4), ("hf", 2), ("spec", 5)):
        interrupted(tmp_path / "request.pb", monkeypatch, stop, **options)
    capturing.capture(plan(**options), tmp_path / "request.pb")
    assert (tmp_path / "request.pb").read_bytes() == (tmp_path / "whole" / "request.pb").read_bytes()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"taps": ("logits",)}, "taps"),
        ({"rows": 1}, "rows"),
        ({"dtype": torch.float16}, "dtype"),
        ({"rotate_encoder_keys": False}, "config"),
    ],
)
def test_another_request_of_the_same_name_is_refused_and_takes_nothing_away(
    options: dict[str, Any], named: str, uninterrupted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.pb"
    interrupted(path, monkeypatch, ("hf", 4))
    with pytest.raises(ParityError, match=f"another request has this name(.|\n)*{named}"):
        capturing.capture(plan(**options), path)
    counted = Counted(monkeypatch)
    capturing.capture(plan(), path)
    assert counted.hf == IN_A_PASS - 4 and path.read_bytes() == uninterrupted


def test_other_inputs_or_another_checkpoint_are_another_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.pb"
    interrupted(path, monkeypatch, ("hf", 4))
    inputs = capturing.plan(CHECKPOINT, [[5, 6, 7, 9], [9, 10]], TARGET, prefill=PREFILL)
    checkpoint = capturing.plan(CHECKPOINT.with_name("window-encoder"), SOURCE, TARGET, prefill=PREFILL)
    for altered, named in ((inputs, "inputs"), (checkpoint, "checkpoint")):
        with pytest.raises(ParityError, match=f"different (.*, )?{named}"):
            capturing.capture(altered, path)


def test_two_captures_of_one_golden_at_a_time_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "request.pb"
    work_folder_of(path).mkdir()
    descriptor = os.open(work_folder_of(path), os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(ParityError, match="another process"):
            capturing.capture(plan(), path)
        assert work_folder_of(path).exists()
    finally:
        os.close(descriptor)
    capturing.capture(plan(taps=("logits",)), path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("damage", [lambda whole: whole[:-20], lambda _: b"", lambda _: b"x" * 100])
def test_a_part_that_is_damaged_is_computed_again(
    damage: Callable[[bytes], bytes], uninterrupted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.pb"
    interrupted(path, monkeypatch, ("hf", 6))
    part = sorted(work_folder_of(path).glob("run-*.pb"))[3]
    part.write_bytes(damage(part.read_bytes()))
    counted = Counted(monkeypatch)
    capturing.capture(plan(), path)
    assert counted.hf == IN_A_PASS - 3 and path.read_bytes() == uninterrupted


def test_what_cannot_be_gone_on_from_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = Pass.end

    def full(self: Pass) -> None:
        if self.name == "truth":
            raise ParityError("disk", "is full", expected="space", got="none", next_step="free some")
        end(self)

    monkeypatch.setattr(Pass, "end", full)
    with pytest.raises(ParityError, match="is full"):
        capturing.capture(plan(), tmp_path / "request.pb")
    assert not list(tmp_path.iterdir())


def test_a_capture_that_ends_before_its_first_layer_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(tmp_path / "request.pb", monkeypatch, ("hf", 0))
    assert not list(tmp_path.iterdir())


def test_a_tiny_model_needs_one_file_for_each_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "SECONDS", 1000.0)
    files: list[str] = []
    end = Pass.end

    def look(self: Pass) -> None:
        end(self)
        files.extend(sorted(file.name for file in self.folder.glob(f"{self.name}-*.pb")))

    monkeypatch.setattr(Pass, "end", look)
    capturing.capture(plan(), tmp_path / "request.pb")
    assert files == [f"{name}-000000.pb" for name in ("run", "truth", "sequential", "above", "below")]


def test_the_command_goes_on_and_says_so(uninterrupted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ["--source-ids", "5,6,7,8;9,10", "--target-ids", "1,2,3,4;5,6,7", "--prefill", "3"]
    command = ["capture", "--model", str(CHECKPOINT), "--out", str(tmp_path), *request]
    with monkeypatch.context() as patch:
        Counted(patch, ("hf", 5))
        assert CliRunner().invoke(main, command).exit_code != 0
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "was interrupted" in result.output
    assert (tmp_path / "request.pb").read_bytes() == uninterrupted


@pytest.mark.parametrize(
    ("available", "options", "streams"),
    [(1, [], True), (1 << 40, [], False), (1 << 40, ["--stream"], True), (1, ["--no-stream"], False)],
)
def test_a_model_is_streamed_when_memory_is_short_or_when_asked(
    available: int, options: list[str], streams: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "available_memory", lambda: available)
    loaded: list[str] = []
    for module, name in ((streamed, "load_streamed"), (capturing, "load_in_memory")):
        load = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, n=name, f=load: (loaded.append(n), f(*a))[1])
    command = ["capture", "--model", CHECKPOINT, "--out", tmp_path, "--target-ids", "1,2", "--no-floors", *options]
    result = CliRunner().invoke(main, [str(argument) for argument in command])
    assert result.exit_code == 0, result.output
    assert ("streamed from the disk" in result.output) is streams
    assert loaded == ["load_streamed" if streams else "load_in_memory"]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("floors", "options"),
    [
        (True, {}),
        (False, {}),
        (True, {"dtype": torch.bfloat16}),
        (False, {"dtype": torch.bfloat16}),
        (True, {"rows": 1}),
    ],
)
def test_the_space_that_a_capture_needs_is_what_its_files_take(
    floors: bool, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    write = make_golden._write

    def look(recording: Recording, held: Sequence[pb.Parameter], folder: Path, path: Path) -> None:
        items = [item for file in folder.glob("*-*.pb") for item in read(file)]
        # RoPE tables and the scale of each tap: nothing where layers are wide
        small = [item for item in items if item.info.name.startswith("aside.") or item.array.shape == (2,)]
        taken.append(sum(item.info.bytes for item in items) - sum(item.info.bytes for item in small))
        write(recording, held, folder, path)

    monkeypatch.setattr(make_golden, "_write", look)
    request = plan(**options)
    capturing.capture(request, tmp_path / "request.pb", floors=floors)
    expected = work_bytes(request.config, request.lengths, request.bytes, ARITHMETIC[request.dtype], floors=floors)
    assert 0.9 * expected <= taken[0] <= expected


def test_what_an_interrupted_capture_has_written_need_not_be_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = plan()
    expected = work_bytes(request.config, request.lengths, request.bytes, ARITHMETIC[request.dtype], floors=True)
    free = request.bytes + (1 << 20) + expected - 1
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=free))
    with pytest.raises(ParityError, match="disk is too small"):
        capturing.refuse_too_large(request, tmp_path, floors=True)
    capturing.refuse_too_large(request, tmp_path, floors=True, written=1)
