"""Beam search over the cached model is a beam search in plain Python over uncached forwards: ids and scores."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3}
START, PAD, EOS = 3, 1, (15, 19, 46, 50, 67, 80, 83, 87, 89, 94)
NEW = 9


@dataclass(frozen=True)
class Hypothesis:
    """Ids from the start id on, and the sum of their log-probabilities (`score` of a finished one: per length)."""

    ids: tuple[int, ...]
    score: float


@torch.no_grad()
def _log_probabilities(model: Any, source: torch.Tensor, mask: torch.Tensor, beams: list[Hypothesis]) -> torch.Tensor:
    target = torch.tensor([beam.ids for beam in beams])
    count = len(beams)
    logits = model(source.expand(count, -1), mask.expand(count, -1), target, use_cache=False).logits
    return logits[:, -1].double().log_softmax(-1)


def _beam_search(
    model: Any, source: torch.Tensor, mask: torch.Tensor, prompt: tuple[int, ...], width: int, penalty: float, stop: Any
) -> list[Hypothesis]:
    """The best `width` finished hypotheses of one source `[1, length]`, best first, with transformers' rules.

    Each step ranks all continuations; those of the first `width` that end are finished with score / length^penalty, the
    best `width` that do not end run on. A source is done when it has `width` finished ones and (`stop=True`) at once,
    or when the best running one could not beat the worst finished one at the present (`False`) or largest
    (`"never"`, for a positive penalty) length.
    """
    running, finished = [Hypothesis(prompt, 0.0)], list[Hypothesis]()
    for length in range(1, NEW + 1):
        table = _log_probabilities(model, source, mask, running)
        continued = [
            Hypothesis((*beam.ids, token), beam.score + value)
            for beam, row in zip(running, table.tolist(), strict=True)
            for token, value in enumerate(row)
        ]
        ranked = sorted(continued, key=lambda hypothesis: -hypothesis.score)
        ends = [hypothesis.ids[-1] in EOS or length == NEW for hypothesis in ranked]
        ended = [h for h, end in zip(ranked[:width], ends, strict=False) if end]
        finished += [Hypothesis(h.ids, h.score / length**penalty) for h in ended]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis.score)[:width]
        running = [h for h, end in zip(ranked, ends, strict=True) if not end][:width]
        if len(finished) == width and running:
            reach = NEW if stop == "never" and penalty > 0 else length
            if stop is True or running[0].score / reach**penalty <= finished[-1].score:
                break
    return finished


@pytest.fixture(params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    model = make_model(attn_implementation=request.param, tie_word_embeddings=False, **WINDOWED)
    with torch.no_grad():
        model.lm_head.weight.mul_(0.25)  # a flat distribution, so that beams stay close and cross
    return model


def _sources(ids: Any) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 4:] = 0
    return ids(2, 7, seed=21), mask


def _check(model: Any, ids: Any, width: int, penalty: float, stop: Any, prompt: torch.Tensor, **options: Any) -> Any:
    source, mask = _sources(ids)
    output = model.generate(
        source,
        attention_mask=mask,
        decoder_input_ids=prompt,
        num_beams=width,
        num_return_sequences=width,
        length_penalty=penalty,
        early_stopping=stop,
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=list(EOS),
        pad_token_id=PAD,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    expected = [
        hypothesis
        for row in range(2)
        for hypothesis in _beam_search(
            model, source[row : row + 1], mask[row : row + 1], tuple(prompt[row].tolist()), width, penalty, stop
        )
    ]
    longest = max(len(hypothesis.ids) for hypothesis in expected)
    padded = [[*hypothesis.ids, *[PAD] * (longest - len(hypothesis.ids))] for hypothesis in expected]
    assert output.sequences.tolist() == padded
    scores = torch.tensor([hypothesis.score for hypothesis in expected])
    torch.testing.assert_close(output.sequences_scores, scores, rtol=1e-5, atol=1e-5)
    return output


def _starts() -> torch.Tensor:
    return torch.full((2, 1), START)


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize(("width", "penalty", "stop"), [(3, 0.5, False), (4, 0.0, True), (5, 1.5, "never")])
def test_beam_search_is_the_plain_one(
    model: Any, ids: Any, cache: str, stop: bool | str, width: int, penalty: float
) -> None:
    _check(model, ids, width, penalty, stop, _starts(), cache_implementation=cache)


def test_beams_cross_and_end_at_different_steps(model: Any, ids: Any) -> None:
    output = _check(model, ids, 4, 0.5, False, _starts())
    lengths = {int(row.ne(PAD).sum()) for row in output.sequences}
    assert len(lengths) >= 3
    moves = output.beam_indices[output.beam_indices >= 0].tolist()
    assert {0, 1, 2, 3} & set(moves) and {4, 5, 6, 7} & set(moves)
    paths = [[step for step in row if step >= 0] for row in output.beam_indices.tolist()]
    assert any(len(set(path[1:])) > 1 for path in paths[:4]) and any(len(set(path[1:])) > 1 for path in paths[4:])


def test_beams_continue_a_given_prefix(model: Any, ids: Any) -> None:
    _check(model, ids, 3, 0.5, False, torch.tensor([[START, 7, 30], [START, 55, 9]]))


def test_beams_without_a_cache_are_the_same(model: Any, ids: Any) -> None:
    _check(model, ids, 3, 0.5, False, _starts(), use_cache=False)


def test_beams_over_encoder_outputs_from_outside_are_the_same(model: Any, ids: Any) -> None:
    source, mask = _sources(ids)
    with torch.no_grad():
        encoded = model.encoder(source, mask)
    _check(model, ids, 3, 0.5, False, _starts(), encoder_outputs=encoded)
