"""How much a lossy candidate's predictions differ from the golden's: divergence in nats, and where ranks change.

Both recordings were fed the same ids (teacher-forced), so that one flipped token does not end the comparison. Nothing
here passes or fails: it is said beside the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb, place
from qwen3_parity.judge.scope import Scope
from qwen3_reference.graph.scope import counted

TOP = 10


@dataclass(frozen=True, slots=True)
class Prediction:
    """The next-token distribution at one judged position.

    `kl` is KL(golden ‖ candidate) in nats, summed over the whole vocabulary, from float64 softmaxes. `rank` is that of
    the golden's best token in the candidate, 1 = best; `shared` counts how many of the golden's ten best are among the
    candidate's. Ties count in favour: equal logits share the better rank, and of several best tokens the best placed
    counts.
    `margin` is the golden's distance between its two best logits.
    """

    step: int
    row: int
    position: int
    kl: float
    rank: int
    shared: int
    margin: float


@dataclass(frozen=True)
class Predictions:
    """Every judged position of two recordings, in order of the steps. `top` is how many best tokens `shared` is of."""

    tokens: Sequence[Prediction]
    top: int

    @property
    def mean_kl(self) -> float:
        """Nats per token."""
        return float(np.mean([token.kl for token in self.tokens]))

    @property
    def worst(self) -> Prediction:
        """The position with the largest divergence."""
        return max(self.tokens, key=lambda token: token.kl)

    @property
    def top_1(self) -> float:
        """The share of positions whose best token is the golden's."""
        return float(np.mean([token.rank == 1 for token in self.tokens]))

    @property
    def top_10(self) -> float:
        """The mean share of the golden's ten best tokens that are the candidate's."""
        return float(np.mean([token.shared / self.top for token in self.tokens]))

    @property
    def worst_rank(self) -> int:
        """The worst rank that the golden's best token has in the candidate."""
        return max(token.rank for token in self.tokens)

    @property
    def first_divergent(self) -> Prediction | None:
        """The first position, step by step, whose best token is another; None when there is none."""
        return next((token for token in self.tokens if token.rank > 1), None)

    def to_json(self) -> dict[str, Any]:
        """The figures of all positions together, and of each."""
        first = self.first_divergent
        return {
            "tokens": len(self.tokens),
            "mean_kl": self.mean_kl,
            "worst_kl": self.worst.kl,
            "top_1": self.top_1,
            "top_10": self.top_10,
            "worst_rank": self.worst_rank,
            "first_divergent": None if first is None else asdict(first),
            "positions": [asdict(token) for token in self.tokens],
        }


def lossy_predictions(golden: Recording, candidate: Recording) -> Predictions | None:
    """As `predictions`, of a candidate that has no claim to parity; None of any other."""
    return predictions(golden, candidate) if candidate.run.arithmetic == pb.ARITHMETIC_OTHER else None


def predictions(golden: Recording, candidate: Recording) -> Predictions | None:
    """Compare the logits `[batch, query, vocab]` of every step at the judged positions.

    None when the golden has no such logits, or when the candidate's of a step are missing, have another shape or are
    not finite where they count: then the verdict says so.
    """
    scope, tokens, vocab = Scope(golden), list[Prediction](), 0
    for item in golden:
        if item.info.name != "logits" or item.array.ndim != 3:
            continue
        candidate_tap = candidate.get(*item.key)
        if candidate_tap is None or candidate_tap.array.shape != item.array.shape:
            return None
        vocab = item.array.shape[-1]
        tokens += _step(item.info.step, item.values(), candidate_tap.values(), _positions(item, golden, scope))
    finite = all(np.isfinite(token.kl) for token in tokens)
    return Predictions(tokens, min(TOP, vocab)) if tokens and finite else None


def _positions(logits: Tensor, golden: Recording, scope: Scope) -> Array:
    """`[batch, query]`: the positions that are judged, which a golden with a graph tells by its own masks."""
    if golden.case.mode == pb.GRAPH:
        return np.asarray(counted(logits, golden).any(axis=-1))
    judged = scope.judged(logits, place("logits", golden.case.config.num_hidden_layers))
    shape = logits.array.shape[:2]
    return np.ones(shape, bool) if judged is None else np.broadcast_to(judged.any(axis=-1), shape)


def _step(step: int, golden: Array, candidate: Array, shown: Array) -> Iterator[Prediction]:
    for position, row in np.argwhere(shown.T):  # position by position, so that the first one is the earliest
        expected, actual = (logits[row, position].astype(np.float64) for logits in (golden, candidate))
        best = np.sort(expected)[::-1]
        yield Prediction(
            step,
            int(row),
            int(position),
            divergence(expected, actual),
            rank(expected, actual),
            shared(expected, actual, min(TOP, expected.size)),
            float(best[0] - best[1]) if best.size > 1 else 0.0,
        )


def divergence(expected: Array, actual: Array) -> float:
    """KL(expected ‖ actual) of the softmaxes of two float64 rows of logits `[vocab]`, in nats; never below 0."""
    with np.errstate(invalid="ignore"):
        logp, logq = _log_softmax(expected), _log_softmax(actual)
        return float(max(np.sum(np.exp(logp) * (logp - logq)), 0.0)) if np.isfinite(actual).all() else float("nan")


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def rank(expected: Array, actual: Array) -> int:
    """1 + how many tokens are strictly better in `actual` than the best of the tokens that `expected` likes best."""
    favourite = actual[expected == expected.max()].max()
    return 1 + int((actual > favourite).sum())


def shared(expected: Array, actual: Array, top: int) -> int:
    """How many of the `top` best tokens the two have in common; tokens that tie with the last one count as in."""
    both = [logits >= np.partition(logits, -top)[-top] for logits in (expected, actual)]
    return min(top, int((both[0] & both[1]).sum()))
