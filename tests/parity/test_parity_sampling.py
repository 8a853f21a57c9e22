"""Our `generate()` beside Hugging Face's on the same checkpoints: the same tokens, drawn ones by one generator too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT
from qwen3_reference.capture.generation import hf_generate
from qwen3_reference.capture.models import Reference, load_reference
from qwen3_reference.cases.networks import case, inputs

DECODER, ENCODER = (GOLDEN_ROOT / "checkpoints" / name for name in ("generation", "generation-encoder"))
NEW, EOS, PAD, SEED = 9, [11, 36], 3, 29
FILTERED = {"do_sample": True, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.3}
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "plain sample": {"do_sample": True, "top_k": 0},
    "filtered sample": FILTERED,
}
Rows = dict[str, np.ndarray]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def ours() -> Any:
    return load_qwen3(DECODER, ENCODER).train(False)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return load_reference(ENCODER, DECODER)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Three sources padded on either side, three prompts, one of them padded."""
    return dict(inputs(case("generation/merged"), 41))


def tensor(rows: Rows, name: str) -> torch.Tensor:
    return torch.from_numpy(rows[f"input.{name}"].copy())


def settings(kind: str) -> dict[str, Any]:
    return {"max_new_tokens": NEW, "eos_token_id": EOS, "pad_token_id": PAD, **KINDS[kind]}


def theirs(reference: Reference, rows: Rows, kind: str) -> list[list[int]]:
    """What Hugging Face's Qwen3 with a merged cache generates."""
    torch.manual_seed(SEED)
    return hf_generate(reference, rows, **settings(kind)).sequences.tolist()  # type: ignore[no-any-return]


def generated(model: Any, rows: Rows, kind: str, **options: Any) -> list[list[int]]:
    ids = tensor(rows, "decoder_input_ids")
    arguments = {"attention_mask": tensor(rows, "encoder_attention_mask"), "decoder_input_ids": ids}
    arguments["decoder_attention_mask"] = tensor(rows, "decoder_attention_mask")
    if "encoder_outputs" not in options:
        arguments["input_ids"] = tensor(rows, "encoder_input_ids")
    torch.manual_seed(SEED)
    sequences = model.generate(**arguments, **settings(kind), decoder_start_token_id=ids[:, 0].tolist(), **options)
    return sequences.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_hugging_faces(ours: Any, reference: Reference, rows: Rows, kind: str, cache: str) -> None:
    expected = theirs(reference, rows, kind)
    assert generated(ours, rows, kind, cache_implementation=cache) == expected
    assert len({row.index(PAD, 2) if PAD in row[2:] else len(row) for row in expected}) >= 2  # ragged ends


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_over_encoder_outputs_from_outside_are_hugging_faces(
    ours: Any, reference: Reference, rows: Rows, kind: str
) -> None:
    with torch.no_grad():
        encoded = ours.encoder(tensor(rows, "encoder_input_ids"), tensor(rows, "encoder_attention_mask"))
    assert generated(ours, rows, kind, encoder_outputs=encoded) == theirs(reference, rows, kind)


def test_a_prefix_that_was_generated_goes_on_as_hugging_face_does(ours: Any, reference: Reference, rows: Rows) -> None:
    free = {name: value for name, value in rows.items() if "decoder" not in name}
    prefix = np.array(theirs(reference, rows, "greedy"))[:, :6]
    longer = free | {"input.decoder_input_ids": prefix}
    longer["input.decoder_attention_mask"] = np.concatenate(
        [rows["input.decoder_attention_mask"], np.ones((len(prefix), 4), bool)], axis=1
    )
    assert generated(ours, longer, "greedy") == theirs(reference, longer, "greedy")
    assert generated(ours, longer, "greedy", prefill_chunk_size=4) == theirs(reference, longer, "greedy")
