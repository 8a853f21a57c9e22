"""Beam search of our model is Hugging Face's on its own network: ids and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT
from qwen3_reference.capture.generation import hf_generate
from qwen3_reference.capture.models import load_reference
from qwen3_reference.cases.networks import case, inputs

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
WIDTH = 3


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize(("penalty", "stop"), [(0.6, False), (0.0, True), (1.5, "never")])
def test_beams_are_hugging_faces(penalty: float, stop: bool | str, cache: str) -> None:
    rows = dict(inputs(case("generation/merged"), 41))  # three sources padded on either side, prompts of two lengths
    options: dict[str, Any] = {
        "num_beams": WIDTH,
        "num_return_sequences": WIDTH,
        "length_penalty": penalty,
        "early_stopping": stop,
        "max_new_tokens": 9,
        "do_sample": False,
        "eos_token_id": [11, 23, 36],
        "pad_token_id": 3,
    }
    for_beams = {name: np.repeat(x, WIDTH, axis=0) if "encoder" in name else x for name, x in rows.items()}
    reference = load_reference(CHECKPOINTS / "generation-encoder", CHECKPOINTS / "generation")
    expected = hf_generate(reference, for_beams, **options)

    given = {name.removeprefix("input."): torch.from_numpy(x.copy()) for name, x in rows.items()}
    ours: Any = load_qwen3(CHECKPOINTS / "generation", CHECKPOINTS / "generation-encoder").train(False)
    actual = ours.generate(
        given["encoder_input_ids"],
        attention_mask=given["encoder_attention_mask"],
        decoder_input_ids=given["decoder_input_ids"],
        decoder_attention_mask=given["decoder_attention_mask"],
        decoder_start_token_id=given["decoder_input_ids"][:, 0].tolist(),
        cache_implementation=cache,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    assert actual.sequences.tolist() == expected.sequences.tolist()
    torch.testing.assert_close(actual.sequences_scores, expected.sequences_scores, rtol=1e-5, atol=1e-5)
    paths = [[row for row in path if row >= 0] for path in expected.beam_indices.tolist()]
    crossed = {path[0] // WIDTH for path in paths if len(set(path[1:])) > 1}
    assert crossed == {0, 1, 2} and len({len(path) for path in paths}) > 1  # in every source; ends at different steps
