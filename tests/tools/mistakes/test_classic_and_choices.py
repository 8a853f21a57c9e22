"""Wrong parts of the classic encoder, choices of tokens and losses, by torch in float32, get their mistakes' names."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional
from wrong_numbers import named

from qwen3_golden import Array
from qwen3_spec.site import Site

HIDDEN, HEADS, DIM = 12, 4, 3
ROUNDED = float(torch.tensor(HIDDEN**0.5).bfloat16())
Numbers = Callable[..., torch.Tensor]


def of(numbers: Numbers) -> Callable[[Site], Array]:
    """`numbers(*inputs, *parameters)` of a place."""
    return lambda site: numbers(*map(torch.tensor, (*site.inputs, *site.parameters.values()))).numpy()


def by(divisor: Callable[[torch.Tensor], torch.Tensor]) -> Numbers:
    return lambda x, w, b: w * (x - x.mean(-1, keepdim=True)) / divisor(x) + b


def variance(x: torch.Tensor, unbiased: bool = False) -> torch.Tensor:
    return x.var(-1, keepdim=True, unbiased=unbiased)


def squares_with_lanes(x: torch.Tensor) -> torch.Tensor:
    """Of a row that four zeros fill up to 16, all of it less the mean."""
    return (functional.pad(x, (0, 4)) - x.mean(-1, keepdim=True)).pow(2).sum(-1, keepdim=True)


def cut(order: str, part: int) -> Numbers:
    """The fused projection cut as `order` says: "phd" is right (part, head, dim)."""
    sizes = {"p": 3, "h": HEADS, "d": DIM}
    axes = [2 + order.index(axis) for axis in "phd"]
    return lambda qkv: qkv.view(*qkv.shape[:2], *(sizes[axis] for axis in order)).permute(
        axes[0], 0, axes[1], 1, axes[2]
    )[part]


def dot(factor: float) -> Numbers:
    return lambda q, k: q @ k.transpose(2, 3) * factor


PRE, BERT = "classic/pre_norm", "classic/bert"
NORM, ACT, SUM = "pre_norm.layers.0.norm1", "post_norm.layers.0.feed_forward.act", "pre_norm.embeddings"
Q, SCORES = "pre_norm.layers.0.self_attn.q", "pre_norm.layers.0.self_attn.scores"
CLASSIC: dict[str, tuple[str, str, str, Numbers]] = {
    "eps of BERT": ("norm.eps", PRE, NORM, by(lambda x: (variance(x) + 1e-12).sqrt())),
    "n - 1": ("norm.bessel", PRE, NORM, by(lambda x: (variance(x, True) + 1e-5).sqrt())),
    "eps behind the root": ("norm.eps_outside_root", PRE, NORM, by(lambda x: variance(x).sqrt() + 1e-5)),
    "RMSNorm": ("norm.rms", PRE, NORM, lambda x, w, b: w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) + b),
    "no bias": ("norm.no_bias", PRE, NORM, lambda x, w, b: functional.layer_norm(x, (HIDDEN,), w, None, 1e-5)),
    "no weight": ("norm.no_weight", PRE, NORM, lambda x, w, b: functional.layer_norm(x, (HIDDEN,), None, b, 1e-5)),
    "a tile's channels": ("norm.width", PRE, NORM, by(lambda x: (variance(x) * HIDDEN / 32 + 1e-5).sqrt())),
    "lanes of 0": ("norm.padded_lanes", PRE, NORM, by(lambda x: (squares_with_lanes(x) / HIDDEN + 1e-5).sqrt())),
    "tokens not scaled": ("embedding.scaled", PRE, SUM, lambda t, p: t + p),
    "tokens divided": ("embedding.scaled", PRE, SUM, lambda t, p: t * HIDDEN**-0.5 + p),
    "positions scaled too": ("embedding.scaled", PRE, SUM, lambda t, p: (t + p) * HIDDEN**0.5),
    "a scale in bfloat16": ("embedding.scale_rounded", PRE, SUM, lambda t, p: t * ROUNDED + p),
    "no positions": ("positions.missing", PRE, SUM, lambda t, p: t * HIDDEN**0.5),
    "head by head": ("qkv.interleaved", PRE, Q, cut("hpd", 0)),
    "q, k, v innermost": ("qkv.interleaved", PRE, Q, cut("hdp", 0)),
    "heads innermost": ("qkv.heads_innermost", PRE, Q, cut("pdh", 0)),
    "k for q": ("qkv.exchanged", PRE, Q, cut("phd", 1)),
    "not scaled": ("scores.scale", PRE, SCORES, dot(1.0)),
    "scaled by hidden_size": ("scores.scale", PRE, SCORES, dot(HIDDEN**-0.5)),
    "scaled twice": ("scores.scale", PRE, SCORES, dot(1 / DIM)),
    "GELU by tanh": ("mlp.activation", BERT, ACT, lambda x: functional.gelu(x, approximate="tanh")),
    "quick GELU": ("mlp.activation", BERT, ACT, lambda x: x * (1.702 * x).sigmoid()),
    "ReLU": ("mlp.activation", BERT, ACT, torch.relu),
}  # fmt: skip
test_a_wrong_part_of_the_classic_encoder_is_named = named(
    {key: (*place, of(numbers)) for key, (*place, numbers) in CLASSIC.items()}
)
IGNORED = -100


def costs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def shifted(steps: int) -> Numbers:
    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        gap = torch.full_like(labels[:, :1], IGNORED)
        labels = torch.cat((labels[:, 1:], gap) if steps > 0 else (gap, labels[:, :-1]), 1)
        return costs(logits, labels).sum() / (labels != IGNORED).sum()

    return loss


def by_rows(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (costs(logits, labels).sum(1) / (labels != IGNORED).sum(1)).mean()


def of_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return costs(logits.softmax(-1), labels).sum() / (labels != IGNORED).sum()


LOSSES: dict[str, tuple[str, Numbers]] = {
    "shifted again": ("loss.shifted", shifted(1)),
    "own token": ("loss.shifted", shifted(-1)),
    "sum": ("loss.sum", lambda x, y: costs(x, y).sum()),
    "ignored labels counted": ("loss.ignored_counted", lambda x, y: costs(x, y).mean()),
    "ignored labels learnt": ("loss.ignored_as_token", lambda x, y: costs(x, y.clamp(min=0)).mean()),
    "mean of rows": ("loss.mean_of_rows", by_rows),
    "probabilities for logits": ("loss.softmax_twice", of_probabilities),
}  # fmt: skip
test_a_wrong_loss_is_named = named({key: (n, "training/tied", "loss", of(loss)) for key, (n, loss) in LOSSES.items()})


def penalised(logits: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return torch.where(counts == 0, logits, torch.where(logits < 0, logits * 1.4, logits / 1.4))


def repeated(logits: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return torch.where(logits < 0, logits * 1.4**counts, logits / 1.4**counts)


def largest(logits: torch.Tensor, k: int = 20) -> torch.Tensor:
    return logits.masked_fill(logits < logits.topk(k)[0][:, -1:], -torch.inf)


def mass(keep: Callable[[torch.Tensor], torch.Tensor]) -> Numbers:
    """Top-p by `keep(probabilities, the largest first)`; the largest always stays."""

    def masked(logits: torch.Tensor) -> torch.Tensor:
        ordered, order = logits.sort(descending=True, stable=True)
        stays = keep(ordered.softmax(-1))
        stays[:, 0] = True
        return logits.masked_fill(~torch.zeros_like(stays).scatter(1, order, stays), -torch.inf)

    return masked


def likely(logits: torch.Tensor) -> torch.Tensor:
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < 0.05 * probs.amax(-1, keepdim=True), -torch.inf)


def likely_of_one(logits: torch.Tensor) -> torch.Tensor:
    gone = (logits.softmax(-1) < 0.05) & (logits < logits.amax(-1, keepdim=True))
    return logits.masked_fill(gone, -torch.inf)


def right_mass(probs: torch.Tensor) -> torch.Tensor:
    return probs.cumsum(-1) - probs < 0.9


def choice(
    penalty: Numbers = penalised,
    warm: Numbers = lambda x: x / 2,
    top_k: Numbers = largest,
    top_p: Callable[[torch.Tensor], torch.Tensor] = right_mass,
    min_p: Numbers = likely,
    part: slice = slice(None),
) -> Callable[[Site], Array]:
    """The filters in their order, of which one may be another; the penalty counts a `part` of what a row has had."""

    def wrong(site: Site) -> Array:
        logits, ids, real = map(torch.tensor, site.inputs)
        ids, real = ids[:, : site.stop][:, part], real[:, : site.stop][:, part]
        counts = torch.zeros_like(logits[:, -1]).scatter_add_(1, ids, real.float())
        return min_p(mass(top_p)(top_k(warm(penalty(logits[:, -1], counts))))).softmax(-1).numpy()

    return wrong


CHOICES: dict[str, tuple[str, int, Callable[[Site], Array]]] = {
    "the token that crosses p is left out": ("top_p.crossing_left_out", 0, choice(top_p=lambda p: p.cumsum(-1) <= 0.9)),
    "the largest alone": ("top_p.each", 0, choice(top_p=lambda p: p < 0)),
    "negative logits divided": ("repetition_penalty.negative_divided", 0, choice(
        lambda x, n: torch.where(n > 0, x / 1.4, x))),
    "twice had, twice penalised": ("repetition_penalty.repeated", 0, choice(repeated)),
    "prompt left out": ("repetition_penalty.prompt_left_out", 1, choice(part=slice(6, None))),
    "prompt alone": ("repetition_penalty.generated_left_out", 1, choice(part=slice(None, 6))),
    "times the temperature": ("temperature.multiplied", 0, choice(warm=lambda x: x * 2)),
    "k + 1": ("top_k.off_by_one", 0, choice(top_k=lambda x: largest(x, 21))),
    "min-p of one": ("min_p.of_one", 0, choice(min_p=likely_of_one)),
}  # fmt: skip
test_a_wrong_choice_of_tokens_is_named = named(
    {key: (name, "generation/sample", "next_token_probs", w, step) for key, (name, step, w) in CHOICES.items()}
)
