"""Sampling with a fixed seed is a plain loop over uncached forwards with the same warpers, written out here."""

import math
from typing import Any

import pytest
import torch

WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3}
START, PAD, EOS, NEW, SEED = 3, 1, (10, 23, 41, 66, 80), 12, 1234
HIDDEN = -math.inf


def _penalised(scores: list[float], seen: list[int], penalty: float) -> list[float]:
    """Keskar et al. 2019: scores of ids that were generated are divided by the penalty, or multiplied when negative."""
    return [
        score if token not in seen else (score / penalty if score > 0 else score * penalty)
        for token, score in enumerate(scores)
    ]


def _probabilities(scores: list[float]) -> list[float]:
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / sum(weights) for weight in weights]


def _top_k(scores: list[float], k: int) -> list[float]:
    threshold = sorted(scores, reverse=True)[k - 1]
    return [score if score >= threshold else HIDDEN for score in scores]


def _top_p(scores: list[float], p: float) -> list[float]:
    """The smallest set of most likely ids whose probability reaches `p` (Holtzman et al. 2020)."""
    kept, mass = set[int](), 0.0
    probabilities = _probabilities(scores)
    for token in sorted(range(len(scores)), key=lambda token: -scores[token]):
        if mass >= p:
            break
        kept.add(token)
        mass += probabilities[token]
    return [score if token in kept else HIDDEN for token, score in enumerate(scores)]


def _min_p(scores: list[float], p: float) -> list[float]:
    """Ids at least `p` times as likely as the most likely one (Nguyen et al. 2024)."""
    probabilities = _probabilities(scores)
    floor = p * max(probabilities)
    return [score if value >= floor else HIDDEN for score, value in zip(scores, probabilities, strict=True)]


def _warped(logits: list[float], seen: list[int], options: dict[str, Any]) -> list[float]:
    scores = _penalised(logits, seen, options.get("repetition_penalty", 1.0))
    scores = [score / options.get("temperature", 1.0) for score in scores]
    for name, keep in (("top_k", _top_k), ("top_p", _top_p), ("min_p", _min_p)):
        if options.get(name):
            scores = keep(scores, options[name])
    return scores


@torch.no_grad()
def _sample(
    model: Any, source: torch.Tensor, mask: torch.Tensor, target: torch.Tensor, options: dict[str, Any]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Ids `[batch, length]` and the warped scores `[batch, vocab]` of each step, until every row has ended."""
    torch.manual_seed(SEED)
    ended, steps = torch.zeros(len(target), dtype=torch.bool), list[torch.Tensor]()
    for _ in range(NEW):
        logits = model(source, mask, target, use_cache=False).logits[:, -1]
        rows = [_warped(row, seen, options) for row, seen in zip(logits.tolist(), target.tolist(), strict=True)]
        steps.append(torch.tensor(rows))
        drawn = torch.multinomial(steps[-1].softmax(-1), 1)[:, 0].masked_fill(ended, PAD)
        target = torch.cat([target, drawn[:, None]], 1)
        ended |= torch.isin(drawn, torch.tensor(EOS))
        if bool(ended.all()):
            break
    return target, steps


@pytest.fixture(params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    model = make_model(attn_implementation=request.param, tie_word_embeddings=False, **WINDOWED)
    with torch.no_grad():
        model.lm_head.weight.mul_(0.3)  # flat enough for every warper to have something to hide
    return model


ALL = {"temperature": 0.8, "top_k": 30, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.3}


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize(
    "options", [{"top_k": 0}, *({"top_k": 0} | {name: value} for name, value in ALL.items()), ALL], ids=str
)
def test_sampling_is_the_plain_loop(model: Any, ids: Any, options: dict[str, Any], cache: str) -> None:
    source, mask = ids(3, 7, seed=31), torch.ones(3, 7, dtype=torch.long)
    mask[1, 4:], mask[2, :2] = 0, 0
    start = torch.cat([torch.full((3, 1), START), ids(3, 3, seed=32)], 1)
    expected, steps = _sample(model, source, mask, start, options)
    torch.manual_seed(SEED)
    output = model.generate(
        source,
        attention_mask=mask,
        decoder_input_ids=start,
        do_sample=True,
        max_new_tokens=NEW,
        eos_token_id=list(EOS),
        pad_token_id=PAD,
        cache_implementation=cache,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    assert output.sequences.tolist() == expected.tolist()
    for actual, plain in zip(output.scores, steps, strict=True):
        assert torch.equal(actual.isfinite(), plain.isfinite())
        torch.testing.assert_close(actual, plain, rtol=1e-4, atol=1e-4)
    if set(options) & {"top_p", "min_p"} or options["top_k"]:
        assert all(int(plain.isinf().sum()) > 0 for plain in steps)


def test_rows_end_at_different_steps(model: Any, ids: Any) -> None:
    source, start = ids(6, 7, seed=31), torch.full((6, 1), START)
    sampled, _ = _sample(model, source, torch.ones(6, 7), start, {"top_k": 0})
    assert len({int(row.ne(PAD).sum()) for row in sampled}) >= 3
    torch.manual_seed(SEED)
    output = model.generate(
        source,
        do_sample=True,
        top_k=0,
        max_new_tokens=NEW,
        eos_token_id=list(EOS),
        pad_token_id=PAD,
        decoder_start_token_id=START,
    )
    assert output.tolist() == sampled.tolist()
