"""`next` behind each kind of answer: what to do, and a command that can be run as it stands.

It runs `judge.next_command`, too.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read, tensor, write
from qwen3_parity.check import check
from qwen3_parity.cli import main
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.elsewhere import Elsewhere
from qwen3_parity.diagnosis.mistake import Note
from qwen3_parity.diagnosis.parameters import ParameterFault
from qwen3_parity.folder.check import check_folder
from qwen3_parity.folder.diagnose import diagnose_folder
from qwen3_parity.judge.recapture import recapture
from qwen3_parity.judge.verdict import Problem
from qwen3_parity.report.next_step import after_check, after_diagnosis, after_folder_diagnosis

CASES = GOLDEN_ROOT / "cases"


def said(*words: object) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert not isinstance(done.exception, Exception), done.output
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def spoiled(path: Path, case: str, change: Callable[[Recording], None]) -> Path:
    """A golden's copy with a change."""
    recording = read(CASES / f"{case}.pb")
    change(recording)
    write(path, recording)
    return path


def other_arithmetic(recording: Recording) -> None:
    recording.run.arithmetic = pb.ARITHMETIC_OTHER


def without_logits(recording: Recording) -> None:
    recording.tensors[:] = [item for item in recording if item.info.name != "logits"]  # type: ignore[index]
    recording.run.materialised[:] = [name for name in recording.run.materialised if name != "logits"]


def without_a_tap(recording: Recording) -> None:
    recording.tensors[:] = [item for item in recording if item.info.name != "decoder.norm"]  # type: ignore[index]


def doubled_norm(recording: Recording) -> None:
    recording.tensors[:] = [  # type: ignore[index]
        Tensor(item.info, item.array * np.float32(2)) if item.info.name == "decoder.norm" else item
        for item in recording
    ]


@pytest.mark.parametrize(
    ("change", "code", "do", "says"),
    [
        (lambda _: None, 0, "stop", "parity"),
        (other_arithmetic, 1, "stop", "no parity"),
        (without_logits, 1, "record", "logits"),
        (without_a_tap, 1, "record", "decoder.norm"),
        (doubled_norm, 1, "run", ""),
    ],
)
def test_a_verdict_leads_on(change: Callable[[Recording], None], code: int, do: str, says: str, tmp_path: Path) -> None:
    path = spoiled(tmp_path / "mine.pb", "decoder/plain", change)
    answer = said("check", path)
    following = answer["next"]
    assert (answer["exit_code"], following["do"]) == (code, do) and says in following["says"]
    verb = {"stop": None, "record": "check", "run": "diagnose"}[do]
    assert following["command"] == (verb and f"qwen3-parity {verb} --json {path}")
    assert bool(following["decides"]) == (do != "stop") and following["again"] == (do == "record")


def test_what_was_recorded_at_another_place_is_recorded_again(tmp_path: Path) -> None:
    path = spoiled(tmp_path / "mine.pb", "decoder/plain", doubled_norm)  # and logits of the right one
    following = said("diagnose", path)["next"]
    assert following["do"] == "record"
    assert following["says"].startswith("decoder.norm: recorded at another place; record it where its name says")
    assert following["again"] and following["command"] == f"qwen3-parity check --json {path}"


def test_a_parameter_in_the_form_of_a_tap_at_another_place_is_no_fix(tmp_path: Path) -> None:
    """As a scale that is folded into the weight of q_norm: without the tap all is right."""
    path = spoiled(tmp_path / "c.pb", "decoder/plain", doubled_norm)
    verdicts = check(CASES / "decoder" / "plain.pb", path)
    misplaced = Elsewhere("decoder.layers.{layer}.self_attn.q_norm")
    for name, do in (("self_attn.q_norm", "record"), ("self_attn.k_norm", "fix")):
        parameters = [ParameterFault(f"decoder.layers.0.{name}.weight", "is another one")]
        assert after_diagnosis(Diagnosis(verdicts, [], [], [misplaced], parameters))["do"] == do


GPT_OSS = CASES / "model" / "gpt_oss.pb"


def padded_on(side: str | None, golden: Recording, pad: int | None = None) -> Recording:
    """A golden whose first row has two tokens less, padded on a side, None: in the middle."""
    tensors = {item.info.name: item for item in golden if item.info.name.startswith("input.")}
    ids, mask = (tensors[f"input.{name}"].array.copy() for name in ("input_ids", "attention_mask"))
    mask[:], width = 1, mask.shape[1]
    places = {"left": slice(2), "right": slice(width - 2, width), None: slice(1, 3)}[side]
    mask[0, places], ids[0, places] = 0, json.loads(golden.graph.config)["pad_token_id"] if pad is None else pad
    arrays = {"input.input_ids": ids, "input.attention_mask": mask}
    arrays["input.position_ids"] = np.maximum(mask.cumsum(-1) - 1, 0)
    info = tensors["input.input_ids"].info
    inputs = [tensor(name, array, axes=info.axes, op="input") for name, array in arrays.items()]
    return replace(golden, tensors=inputs)


def test_a_case_is_captured_again_in_another_arithmetic_by_its_own_ids(tmp_path: Path) -> None:
    golden = padded_on("left", replace(read(GPT_OSS), source=str(tmp_path / "g.pb")))
    assert recapture(golden, "bfloat16") is None  # no checkpoint is beside it
    whole = recapture(golden, "bfloat16", "DIR")
    assert whole is not None and whole[1] == tmp_path / "g_bfloat16.pb"
    words = shlex.split(whole[0])
    options = dict(zip(words[3::2], words[4::2], strict=True))
    ids = next(item.array for item in golden if item.info.name == "input.input_ids")
    rows = [[int(number) for number in row.split(",")] for row in options["--ids"].split(";")]
    assert rows[0] == ids[0, 2:].tolist() and rows[1:] == ids[1:].tolist()
    assert options["--padding"] == "left" and options["--dtype"] == "bfloat16"
    assert options.get("--steps", "0") == str(len(golden.case.steps) - 1)
    behind = padded_on("right", golden)
    assert (again := recapture(behind, "float16", "DIR")) is not None and "--padding right" in again[0]
    assert recapture(padded_on(None, golden), "float16", "DIR") is None
    assert recapture(padded_on("left", golden, pad=7), "float16", "DIR") is None
    assert recapture(read(CASES / "decoder" / "plain.pb"), "bfloat16", "DIR") is None


def test_a_run_that_is_right_in_another_arithmetic_has_the_whole_way_to_its_golden(tmp_path: Path) -> None:
    golden = padded_on("left", read(GPT_OSS))
    verdicts = replace(check(GPT_OSS, GPT_OSS), arithmetic=pb.ARITHMETIC_BF16, candidate="mine.pb")
    problem = Problem("logits", "too far", "1", "2", "")
    diagnosis = Diagnosis(replace(verdicts, structural=[problem]), [], [], [], [], meaning=["it is in bfloat16"])
    step = after_diagnosis(diagnosis, "DIR", golden)
    capture, _, then = str(step["command"]).partition(" >&2 && ")
    out = shlex.split(capture)[-1]
    assert step["do"] == "run" and step["says"] == "it is in bfloat16" and out.endswith("gpt_oss_bfloat16.pb")
    assert then == f"qwen3-parity check --json --model DIR {out} mine.pb"
    assert after_diagnosis(diagnosis, "DIR", padded_on(None, golden))["do"] == "stop"


def test_capture_without_anything_to_read_says_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["capture", "--model", str(tmp_path), "--dtype", "bfloat16", "--out", "o.pb"])
    assert done.exit_code == 2 and "give what is read: --text or --ids" in done.output


def test_an_op_that_no_mistake_explains_is_fixed_by_what_its_numbers_say(tmp_path: Path) -> None:
    def scattered(recording: Recording) -> None:
        noise = np.random.default_rng(1).standard_normal
        recording.tensors[:] = [  # type: ignore[index]
            Tensor(item.info, item.array + noise(item.array.shape).astype(np.float32))
            if item.info.name.startswith("output.")
            else item
            for item in recording
        ]

    following = said("diagnose", spoiled(tmp_path / "mine.pb", "op/linear", scattered))["next"]
    assert following["do"] == "fix" and following["mistake"] is None
    assert "no known mistake reproduces it; " in following["says"]


def test_partial_and_the_checkpoint_are_said_again(tmp_path: Path) -> None:
    path = spoiled(tmp_path / "mine.pb", "decoder/plain", doubled_norm)
    command = said("check", path, "--partial")["next"]["command"]
    assert shlex.split(command) == ["qwen3-parity", "diagnose", "--json", "--partial", str(path)]
    verdicts = check(read(CASES / "decoder/plain.pb"), read(path))
    command = after_check(verdicts, Path("my dir"))["command"]
    assert isinstance(command, str) and shlex.split(command)[3:5] == ["--model", "my dir"]


def test_a_folder_leads_to_its_one_diagnosis_and_a_level_to_what_it_lacks(tmp_path: Path) -> None:
    spoiled(tmp_path / "mine" / "rope.pb", "op/rope", lambda _: None)
    following = said("check", tmp_path / "mine")["next"]
    assert following["do"] == "stop" and "the next level is reader" in following["says"]
    following = said("check", tmp_path / "mine", "--level", "ops")["next"]
    assert following["do"] == "record" and "op/linear" in following["says"]
    assert following["command"] == f"qwen3-parity check --json --level ops {tmp_path / 'mine'}"
    spoiled(tmp_path / "mine" / "plain.pb", "decoder/plain", doubled_norm)
    following = said("check", tmp_path / "mine")["next"]
    assert (following["do"], following["command"]) == ("run", f"qwen3-parity diagnose --json {tmp_path / 'mine'}")
    following = said("diagnose", tmp_path / "mine")["next"]
    assert following["do"] == "fix" and following["command"] == f"qwen3-parity check --json {tmp_path / 'mine'}"


def test_a_folder_without_a_known_mistake_says_what_is_and_which_tap_to_record(tmp_path: Path) -> None:
    spoiled(tmp_path / "plain.pb", "decoder/plain", doubled_norm)
    diagnosis = diagnose_folder(check_folder(tmp_path))
    (mistake, *_) = diagnosis.mistakes
    nameless = replace(mistake, name="", says=("the numbers are others",), fix="", findings=(), record_next=())
    following = after_folder_diagnosis(replace(diagnosis, mistakes=[nameless]))
    assert following["do"] == "fix" and "the numbers are others" in str(following["says"])
    nameless = replace(nameless, record_next=(Note("record decoder.norm", ("decoder/plain",)),))
    following = after_folder_diagnosis(replace(diagnosis, mistakes=[nameless]))
    assert following["do"] == "record" and following["says"] == "decoder/plain: record decoder.norm"


def test_a_tokenizer_has_one_stage_to_fix(tmp_path: Path) -> None:
    def other_ids(recording: Recording) -> None:
        del next(encoding for encoding in recording.tokenization.encoding if encoding.id).id[0]

    path = spoiled(tmp_path / "mine.pb", "tokenization/words", other_ids)
    assert said("check", path)["next"]["command"] == f"qwen3-parity diagnose --json {path}"
    tiny = GOLDEN_ROOT / "tokenizers" / "tiny"
    answer = said("diagnose", "--model", tiny, path)
    following = answer["next"]
    assert following["do"] == "fix" and following["says"].startswith("at the stage ")
    commands = [following["command"], *(problem["next_step"] for problem in answer["problems"])]
    assert len(commands) > 1 and all(f"--model {tiny}" in command for command in commands)


def test_behind_our_own_tokenizer_comes_the_users(tmp_path: Path) -> None:
    tiny, golden = GOLDEN_ROOT / "tokenizers" / "tiny", tmp_path / "mine.pb"
    asked = ("check", "--tokenizer", tiny, "--text", "naïve")
    assert said(*asked)["next"]["do"] == "stop"
    following = said(*asked, "--out", golden)["next"]
    assert following["command"] == f"qwen3-parity record --json {golden} --impl MODULE:FACTORY --model {tiny}"


def test_where_our_own_tokenizer_is_wrong_there_is_nothing_to_fix(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("qwen3_encdec.tokenizer.tokenizer.ByteLevelTokenizer.encode", lambda *_, **__: [0])
    tiny = GOLDEN_ROOT / "tokenizers" / "tiny"
    answer = said("check", "--tokenizer", tiny, "--text", "naïve")
    assert answer["next"]["do"] == "stop" and "report the text" in answer["next"]["says"]
