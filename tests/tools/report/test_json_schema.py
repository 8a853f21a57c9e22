"""One schema for the JSON of every command, and real output of each held against it.

It runs `judge.plain`, too.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from qwen3_golden import GOLDEN_ROOT, Tensor, pb, read, write
from qwen3_parity.cli import main
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.judge.selection import Selection
from qwen3_parity.mistakes.ranks import COMBINED
from qwen3_parity.recording import regenerate
from qwen3_parity.report import explanations, output

CASES = GOLDEN_ROOT / "cases"
SCHEMA = json.loads((Path(output.__file__).parent / "schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
VERBS = main.every_verb()
WITH_JSON = [verb for verb, command in VERBS.items() if any("--json" in parameter.opts for parameter in command.params)]
MODEL = """
import sys
sys.path.insert(0, {folder!r})
from plain_qwen3 import PlainQwen3

def build(case, directories):
    print("loading")  # as models do, on standard output
    return PlainQwen3(directories["decoder"])
"""


RUNS = [  # in this order: `import` reads what `export` wrote, `record --names` what `match-names` did
    "capture --model {checkpoints}/tied-decoder --target-ids 1,2,3 --taps logits --no-floors --out {out}",
    "cases decoder/* --level causal",
    "check {folder}/op --card {card}",
    "check {folder}/encoder --card {card}",
    "check {folder}",
    "check {folder}/op/rope.pb",
    "check {folder}/encoder/one_token.pb",
    "check {folder}/tokenization/words.pb",
    "check {quantised}",
    "check op/rope {folder}/op",
    "conformance --only op/rms_norm -- {python} {examples}/numpy_process.py --json",
    "conformance --only op/rope -- {python} -c 0",
    "demo --out {out}/demo",
    "diagnose {folder}",
    "diagnose encoder/one_token {folder}/encoder",
    "diagnose {folder}/op/rope.pb",
    "diagnose {folder}/encoder/one_token.pb",
    "diagnose {folder}/tokenization/words.pb",
    "doctor",
    "dump export {cases}/decoder/plain.pb --out {out}/plain.npz",
    "dump import decoder/plain {out}/plain.npz --out {out}/imported.pb",
    "match-names decoder/plain --impl a_model_that_prints:build --out {out}/names.toml",
    "weights export --model {checkpoints}/tied-decoder --out {out}/exported",
    "weights export --tokenizer {tokenizer} --out {out}/tokenizer.pb",
    "weights import {out}/exported --out {out}/again",
    "weights initialize --model {checkpoints}/tied-decoder --out {out}/made --verify",
    "weights initialize --model {checkpoints}/tied-encoder --out {out}/made --verify",
    "parity --only op/rope --out {out}/parity",
    "record op/rope --out {out}/rope.pb",
    "record decoder/plain --impl a_model_that_prints:build --names {out}/names.toml --out {out}/plain.pb",
    "record op/r* --out {out}/several",
    "show {folder}/op/rope.pb",
    "show op/rms_norm",
    "show decoder/plain",
    "show rope.interleaved+norm.eps",
    "show {folder}/tokenization/words.pb",
    "show encoder/one_token {folder}/encoder/one_token.pb --tap encoder.norm",
    "show tokenization/words {folder}/tokenization/words.pb",
    "show MSK-21",
    "show docs/glossary.md",
    "regenerate --check --only op/r* --out {out}/staged",
    "check --tokenizer {tokenizer} --text naïve --text '' --out {out}/mine.pb",
]
CARD = ("--format", "card", "--date", "2026-01-31")
REFUSED = [
    "check {folder}/broken.pb",
    "check {folder}/nothing.pb --junit x",
    "check",
    "check --no-such-option",
    "diagnose {folder} --budget soon",
    "record no/such-case",
    "record op/rope --impl no.such.module:build",
    "weights export --out {out}/nothing",
    "check --tokenizer {out}/nothing --text a",
    "weights import {folder} --out {out}/nothing",
    "dump import op/rope {folder}/broken.pb",
    "nonsense",
    "show nonsense",
    "weights nonsense",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings: one right, one with NaN, one of texts that are wrong, and a file that is none."""
    root = tmp_path_factory.mktemp("recordings")
    golden = read(CASES / "encoder" / "one_token.pb")
    golden.tensors[:] = [  # type: ignore[index]
        Tensor(t.info, np.full_like(t.array, np.nan)) if t.info.name == "encoder.norm" else t for t in golden
    ]
    write(root / "encoder" / "one_token.pb", golden)
    texts = read(CASES / "tokenization" / "words.pb")
    del next(encoding for encoding in texts.tokenization.encoding if encoding.id).id[0]
    write(root / "tokenization" / "words.pb", texts)
    write(root / "op" / "rope.pb", read(CASES / "op" / "rope.pb"))
    (root / "broken.pb").write_bytes(b"no recording")
    return root


@pytest.fixture(scope="module")
def outputs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """What each command answers."""
    out, root = tmp_path_factory.mktemp("out"), GOLDEN_ROOT
    model = MODEL.format(folder=str(Path(__file__).parents[1] / "recording"))
    (out / "a_model_that_prints.py").write_text(model, encoding="utf-8")
    card = out / "card.json"
    result = CliRunner().invoke(main, ["report", f"{folder}/op", *CARD, "--out", str(card.with_suffix(""))])
    assert result.exit_code in (0, 1), result.output
    words = {"folder": folder, "out": out, "card": card, "python": sys.executable, "examples": root.parent / "examples"}
    lossy = read(CASES / "decoder" / "plain.pb")
    lossy.run.arithmetic = pb.ARITHMETIC_OTHER
    write(out / "quantised.pb", lossy)
    words |= {
        "quantised": out / "quantised.pb",
        "cases": CASES,
        "checkpoints": root / "checkpoints",
        "tokenizer": root / "tokenizers" / "tiny",
    }

    def copied(staging: Path, selection: Selection, count: object) -> None:
        write(staging / "cases" / "op" / "rope.pb", read(CASES / "op" / "rope.pb"))

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(out))
        patch.setattr(regenerate, "record_reference", copied)  # a process of its own, and half a minute
        return {line: invoke(line, words) for line in (*RUNS, *REFUSED)}


def invoke(line: str, words: dict[str, object]) -> Result:
    rest = [word.format_map(words) for word in shlex.split(line)]
    count = len(verb_of(line).split()) or 1
    return CliRunner().invoke(main, [*rest[:count], "--json", *rest[count:]])


def verb_of(line: str) -> str:
    """The verb of a line, of a group's with both words; empty where it is none."""
    words = line.split()
    return next((verb for verb in (" ".join(words[:2]), words[0]) if verb in VERBS), "")


def strict(text: str) -> dict[str, Any]:
    """JSON as every reader reads it: Python's own takes NaN for a number."""
    said = json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))
    assert isinstance(said, dict)
    return said


def faults(said: dict[str, Any]) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message[:300]}" for error in VALIDATOR.iter_errors(said)]


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"] == {"const": output.SCHEMA, **SCHEMA["properties"]["schema"]}


def test_every_command_with_json_is_run_here_and_described() -> None:
    described = {name.removeprefix("command_") for name in SCHEMA["$defs"] if name.startswith("command_")}
    assert (
        {verb.replace(" ", "-") for verb in WITH_JSON}
        == described
        == {verb_of(line).replace(" ", "-") for line in RUNS}
    )


@pytest.mark.parametrize("line", RUNS)
def test_what_a_command_prints_is_of_the_schema(outputs: dict[str, Result], line: str) -> None:
    done = outputs[line]
    assert done.exit_code in (0, 1, 2) and not isinstance(done.exception, Exception), done.output
    said = strict(done.stdout)
    assert faults(said) == []
    assert (said["command"], said["exit_code"]) == (verb_of(line), done.exit_code) and "error" not in said


@pytest.mark.parametrize("line", REFUSED)
def test_a_refusal_is_json_too_and_a_message_on_standard_error(outputs: dict[str, Result], line: str) -> None:
    done = outputs[line]
    said = strict(done.stdout)
    assert faults(said) == [] and done.exit_code == 2
    assert said["error"]["rule"] and said["error"]["rule"].splitlines()[0] in done.stderr


@pytest.mark.parametrize("change", [{"surplus": 1}, {"schema": 1}, {"verdict": "fine"}, {"of": "380"}])
def test_the_schema_refuses_what_is_not_of_it(outputs: dict[str, Result], change: dict[str, object]) -> None:
    assert faults(strict(outputs["check {folder}/op/rope.pb"].stdout) | change)


TWO = Explanation("one+other", "says", "fix", "place", 0.5, 1, 0, 1, 0, rank=COMBINED + 1.5, taps=(("logits", 0),))


@pytest.mark.parametrize("file", ["encoder/one_token.pb", "tokenization/words.pb"])
def test_two_mistakes_in_taps_or_texts_are_of_the_schema_and_their_order_may_be_a_half(
    file: str, outputs: dict[str, Result]
) -> None:
    said = strict(outputs[f"diagnose {{folder}}/{file}"].stdout)
    said["faults"][0]["explanations"] = [explanations.to_json(TWO)]
    assert faults(said) == []
    said["faults"][0]["explanations"] = [explanations.to_json(TWO) | {"rank": 5.5}]
    assert faults(said)


def test_what_json_cannot_say_is_a_string() -> None:
    said = strict(
        output.envelope("regenerate", 1, {"share": float("inf"), "all": [float("nan"), (-float("inf"), 2.0)]})
    )
    assert (said["share"], said["all"]) == ("inf", ["nan", ["-inf", 2.0]])


def test_without_json_a_wrong_usage_is_said_as_before() -> None:
    done = CliRunner().invoke(main, ["check"])
    assert (done.exit_code, done.stdout) == (2, "") and "Usage: " in done.stderr


def test_json_for_the_port_is_none_for_us() -> None:
    done = CliRunner().invoke(main, ["conformance", "--only", "no/such", "--", "cat", "--json"])
    assert (done.exit_code, done.stdout) == (2, "")
