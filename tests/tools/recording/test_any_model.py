"""capture --text, --ids and --tiny: any model of transformers becomes a golden with its own graph."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.cli import main
from qwen3_parity.recording.any_model import answers_of, inputs_of
from qwen3_reference.graph.tiny import tiny_model

CHECKPOINT = GOLDEN_ROOT / "checkpoints" / "tied-decoder"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["capture", *map(str, arguments)])


@pytest.mark.slow  # an export of its own
def test_ids_of_a_causal_model_are_padded_on_the_left_and_its_last_tokens_go_one_by_one(tmp_path: Path) -> None:
    out = tmp_path / "mine.pb"
    result = run("--model", CHECKPOINT, "--ids", "5,6,7,8;9,10", "--steps", 1, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    golden = read(out, digests=True)
    assert json.loads(result.stdout)["recording"] == str(out) and golden.case.name == "mine"
    assert golden["input.input_ids", 0].array[1, :2].tolist() == [3, 3] and list(golden.case.steps) == [3, 1]
    assert golden["input.attention_mask", 0].array.tolist() == [[1, 1, 1, 1], [0, 0, 1, 1]]
    assert golden["input.position_ids", 0].array.tolist() == [[0, 1, 2, 3], [0, 0, 0, 1]]
    assert golden.run.arithmetic == pb.ARITHMETIC_F32 and golden.run.backend == pb.EAGER
    assert {flag.key: flag.value for flag in golden.provenance.flags}["export"] == "bfloat16"
    assert golden["logits", 1].info.axes == ["batch", "query", "channel"]


@pytest.mark.slow
def test_an_embedding_is_cut_and_padded_as_asked(tmp_path: Path) -> None:
    out = tmp_path / "e.pb"
    options = ("--pool", "last", "--dimensions", 7, "--padding", "right")
    result = run("--model", CHECKPOINT, "--ids", "5,6,7,8;9,10", *options, "--no-floors", "--out", out)
    assert result.exit_code == 0, result.output
    golden = read(out, digests=True)
    assert golden["input.attention_mask", 0].array.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    embedding, pooled = golden["embedding", 0].array, golden["pooled", 0].array
    assert np.allclose(embedding, pooled[:, :7] / np.linalg.norm(pooled[:, :7], axis=1, keepdims=True), atol=1e-6)
    assert np.array_equal(pooled[1], golden["norm", 0].array[1, 1]) and "last token pooled" in golden.case.description


@pytest.mark.slow
def test_a_score_has_answers_by_their_ids_or_their_texts(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    words = Tokenizer(WordLevel({"no": 4, "yes": 9, "no yes": 5}, "no"))
    words.pre_tokenizer = Split(" ", "removed")
    words.save(str(tmp_path / "words" / "tokenizer.json"))
    assert answers_of("no,yes", tmp_path / "words") == answers_of("4, 9", tmp_path) == (4, 9)
    with pytest.raises(ParityError, match="two answers of one token each"):
        answers_of("no,yes yes", tmp_path / "words")
    out = tmp_path / "s.pb"
    result = run("--model", CHECKPOINT, "--ids", "5,6,7;9,10", "--score", "4,9", "--no-floors", "--out", out)
    assert result.exit_code == 0, result.output
    golden = read(out, digests=True)
    both = golden["logits", 0].array[:, -1, [4, 9]].astype(np.float64)
    assert np.array_equal(golden["answers", 0].array, both.astype(np.float32))
    assert np.allclose(golden["score", 0].array, 1 / (1 + np.exp(both[:, 0] - both[:, 1])), atol=1e-6)


@pytest.mark.slow
def test_a_run_in_bfloat16_is_recorded_in_it(tmp_path: Path) -> None:
    result = run("--model", CHECKPOINT, "--ids", "5,6,7", "--dtype", "bfloat16", "--out", tmp_path / "half.pb")
    assert result.exit_code == 0, result.output
    golden = read(tmp_path / "half.pb")
    assert golden["logits", 0].info.dtype == pb.BF16 and golden.run.arithmetic == pb.ARITHMETIC_BF16
    assert {parameter.dtype for parameter in golden.parameters} == {pb.BF16}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tiny", "qwen3", "--text", "x"], "--text does not go with --tiny"),
        (["--tiny", "qwen3", "--model", CHECKPOINT], "--model does not go with --tiny"),
        (["--model", CHECKPOINT, "--text", "x", "--ids", "1"], "text or ids, not both"),
        (["--model", CHECKPOINT, "--ids", "1", "--target-ids", "1"], "--target-ids does not go with --text or --ids"),
        (["--model", CHECKPOINT, "--ids", "1", "--rows", "1"], "--rows does not go with"),
        (["--ids", "1"], "need --model"),
        (["--steps", "1", "--model", CHECKPOINT], "--steps goes with --text or --ids"),
        ([], "give --model, or --tiny"),
        (["--model", CHECKPOINT, "--ids", "1,2", "--steps", "2"], "there are no such steps"),
        (["--model", CHECKPOINT, "--ids", "1,99999"], "an id is not in the vocabulary"),
        (["--model", CHECKPOINT, "--ids", "a"], "these are not token ids"),
        (["--model", CHECKPOINT, "--ids", "1", "--pool", "last", "--score", "1,2"], "--pool or --score, not both"),
        (["--model", CHECKPOINT, "--ids", "1", "--dimensions", "3"], "--dimensions goes with --pool"),
        (["--model", CHECKPOINT, "--target", "x", "--pool", "last"], "--pool goes with --text or --ids"),
        (["--tiny", "qwen3", "--score", "1,2"], "--score does not go with --tiny"),
        (["--model", CHECKPOINT, "--ids", "1", "--pool", "last", "--dimensions", "99"], "cut to some of its channels"),
        (["--model", CHECKPOINT, "--ids", "1,2", "--pool", "last", "--steps", "1"], "there are no such steps"),
        (["--model", CHECKPOINT, "--ids", "1", "--score", "4"], "two answers of one token each"),
        (["--model", CHECKPOINT, "--ids", "1", "--score", "4,4"], "not the ids of two answers"),
        (["--model", CHECKPOINT, "--ids", "1,2", "--steps", "1", "--padding", "right"], "there are no such steps"),
        (["--tiny", "no_such_family"], "transformers does not know this family"),
        (["--model", GOLDEN_ROOT / "cases", "--ids", "1"], "config.json"),
    ],
)
def test_what_cannot_be_captured_is_one_sentence_and_leaves_nothing(
    arguments: list[object], says: str, tmp_path: Path
) -> None:
    result = run(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2 and says in result.output and "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_weights_that_the_model_needs_and_the_files_lack_are_named(tmp_path: Path) -> None:
    config = json.loads((CHECKPOINT / "config.json").read_text())
    config["num_hidden_layers"] += 1
    config.pop("layer_types", None)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    (tmp_path / "model" / "model.safetensors").symlink_to(CHECKPOINT / "model.safetensors")
    result = run("--model", tmp_path / "model", "--ids", "1,2", "--out", tmp_path / "out.pb")
    assert result.exit_code == 2 and not (tmp_path / "out.pb").exists()
    assert "lacks weights" in result.output or "cannot be read" in result.output


def test_an_encoder_is_padded_on_the_right_and_decodes_nothing() -> None:
    model = tiny_model("bert")
    inputs, steps = inputs_of(model, [[5, 6, 7], [8]], 0)
    assert steps == () and inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    with pytest.raises(ParityError, match="there are no such steps"):
        inputs_of(model, [[5, 6, 7]], 1)


def test_an_encoder_decoder_decodes_its_start_token_and_what_it_chooses() -> None:
    model = tiny_model("t5")
    inputs, steps = inputs_of(model, [[5, 6, 7], [8]], 2)
    assert steps == (1, 1, 1) and inputs["decoder_input_ids"][:, 0].tolist() == [0, 0]
    with torch.no_grad():
        logits = model(**inputs).logits
    assert torch.equal(logits[:, :2].argmax(-1), inputs["decoder_input_ids"][:, 1:])


def test_a_model_that_hears_is_not_captured_on_a_text() -> None:
    with pytest.raises(ParityError, match="this model reads no text") as refused:
        inputs_of(tiny_model("whisper"), [[5, 6]], 1)
    assert refused.value.got == "WhisperForConditionalGeneration, which takes input_features"


@pytest.mark.parametrize("rows", [[], [[]], [[5], []]])
def test_rows_without_tokens_are_refused(rows: list[list[int]]) -> None:
    with pytest.raises(ParityError, match="a row has no tokens"):
        inputs_of(tiny_model("bert"), rows, 0)
