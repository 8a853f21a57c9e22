"""Gradients, and the loss, as sums over tokens, readers, or parts of a formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.terms import LARGEST, Terms
from qwen3_parity.diagnosis.judged import Judged
from qwen3_spec.ops.linear import pairs, rows_of
from qwen3_spec.ops.loss import IGNORED_LABEL
from qwen3_spec.ops.rms_norm import normalised
from qwen3_spec.site import Site

_SMOOTHINGS = (0.1, 0.2, 0.05, 0.15, 0.01)
_EACH = "the part of each token is multiplied by"
_READERS = 64
"""Readers of a value whose parts are told from each other."""


def terms_of(judged: Judged) -> Terms | None:
    """The terms of a gradient or a loss; None for another op, and where they are too many or zero."""
    site = judged.evidence.site
    make = _TERMS.get(site.place.op)
    if make is None or not judged.in_shape:
        return None
    terms = make(site)
    if terms is None or terms.parts.shape[1:] != judged.truth[0].shape:
        return None
    counted = np.flatnonzero(terms.parts.reshape(len(terms.parts), -1).any(1))  # padding passes nothing back
    if not len(counted):
        return None
    return Terms(
        terms.parts[counted],
        [terms.names[int(i)] for i in counted],
        {says: factors[counted] for says, factors in terms.factors.items()},
        {says: numbers[counted] for says, numbers in terms.groups.items()},
        None if terms.of_truth is None else terms.of_truth[counted],
    )


class _Tokens:
    """The terms of a sum over the tokens of several uses, put together."""

    def __init__(self, uses: Sequence[tuple[int, int]], words: Sequence[str]) -> None:
        sizes = [batch * length for batch, length in uses]
        self.words = np.array(words)
        self.use = np.repeat(np.arange(len(uses)), sizes)
        self.row = np.concatenate([np.arange(batch * length) // length for batch, length in uses])
        self.slot = np.concatenate([np.arange(batch * length) % length for batch, length in uses])

    def names(self) -> list[str]:
        several = len(self.words) > 1
        return [
            (f"{self.words[use]} " if several else "") + f"token [{row}, {slot}]"
            for use, row, slot in zip(self.use.tolist(), self.row, self.slot, strict=True)
        ]

    def groups(self) -> dict[str, Array]:
        return {
            "use": np.array([f"{word} tokens" for word in self.words])[self.use],
            "batch row": _numbered("batch row", self.row),
            "position": _numbered("position", self.slot),
        }


def _numbered(word: str, numbers: Array) -> Array:
    return np.array([f"{word} {number}" for number in numbers])


def _uses(names: Sequence[str]) -> list[str]:
    return [f"{name.removeprefix('gradient.').partition('.')[0]}'s" for name in names]


def _of_weight(site: Site) -> Terms | None:
    uses = pairs(site)
    if sum(len(rows_of(dy)) for dy, _ in uses) * rows_of(uses[0][0]).shape[1] * rows_of(uses[0][1]).shape[1] > LARGEST:
        return None
    parts = [np.einsum("to,ti->toi", rows_of(dy), rows_of(x)) for dy, x in uses]
    tokens = _Tokens([dy.shape[:2] for dy, _ in uses], _uses(site.names[1::2]))
    sizes = np.concatenate([np.sqrt(np.square(rows_of(x)).mean(1)) for _, x in uses])
    with np.errstate(all="ignore"):
        factors = {
            f"{_EACH} its input's root mean square": sizes,
            f"{_EACH} 1 / its input's root mean square": 1 / sizes,
        }
    return Terms(np.concatenate(parts), tokens.names(), factors, tokens.groups())


def _of_norm_weight(site: Site) -> Terms:
    uses = [(dy, x.reshape(dy.shape)) for dy, x in pairs(site)]
    parts, roots = list[Array](), list[Array]()
    for dy, x in uses:
        n, scale = normalised(x, site.config.rms_norm_eps)
        products = np.asarray(dy, np.float64) * n
        parts.append(products.reshape(products.shape[0] * products.shape[1], -1, products.shape[-1]))
        roots.append((1 / scale).reshape(parts[-1].shape[0], -1))
    tokens = _Tokens([dy.shape[:2] for dy, _ in uses], _uses(site.names[1::2]))
    heads = parts[0].shape[1]
    every = np.repeat(np.arange(len(tokens.use)), heads)
    root = np.concatenate(roots).reshape(-1)
    names = tokens.names()
    return Terms(
        np.concatenate(parts).reshape(-1, parts[0].shape[-1]),
        [names[int(i)] + (f" head {k % heads}" if heads > 1 else "") for k, i in enumerate(every)],
        {f"{_EACH} its RMS: x is summed up, not x / RMS": root, f"{_EACH} 1 / its RMS": 1 / root},
        {
            **{says: numbers[every] for says, numbers in tokens.groups().items()},
            "head": _numbered("head", np.arange(len(every)) % heads),
        },
    )


def _of_bias(site: Site) -> Terms:
    tokens = _Tokens([dy.shape[:2] for dy in site.inputs], _uses(site.names))
    return Terms(np.concatenate([rows_of(dy) for dy in site.inputs]), tokens.names(), {}, tokens.groups())


def _of_embedding(site: Site) -> Terms | None:
    """Each look-up adds to the row of its id, and each token of a tied head to all of them."""
    inputs = dict(zip(site.names, site.inputs, strict=True))
    rows, training = len(site.checkpoint["decoder.embed_tokens.weight"]), site.case.training
    padding = training.padding_idx if training.HasField("padding_idx") else -1
    stacks = [stack for stack in ("encoder", "decoder") if f"gradient.{stack}.embed_tokens" in inputs]
    dy = [rows_of(inputs[f"gradient.{stack}.embed_tokens"]) for stack in stacks]
    ids = [inputs[f"input.{stack}_input_ids"] for stack in stacks]
    head = site.inputs[-2:] if site.config.tie_word_embeddings else ()
    count = sum(map(len, dy)) + (len(rows_of(head[0])) if head else 0)
    if not stacks or count * rows * dy[0].shape[1] > LARGEST:
        return None
    looked_up, every = np.concatenate(dy), np.concatenate([stack.reshape(-1) for stack in ids])
    parts = np.zeros((count, rows, looked_up.shape[1]))
    parts[np.arange(len(every)), every] = np.where((every == padding)[:, None], 0, looked_up)
    shapes, words = [stack.shape for stack in ids], [f"{stack}'s look-up of" for stack in stacks]
    if head:
        parts[len(every) :] = np.einsum("to,ti->toi", *map(rows_of, head))
        shapes.append(head[0].shape[:2])
        words.append("head's")
    tokens = _Tokens(shapes, words)
    use = tokens.use[: len(every)]
    kinds = np.where(np.arange(count) < len(every), "look-ups", "the head")
    return Terms(parts, tokens.names(), _repeated(every, use, count), {**tokens.groups(), "look-ups and head": kinds})


def _repeated(ids: Array, use: Array, count: int) -> dict[str, Array]:
    """What equal ids count as: the last or first of a stack, or of both; all as their mean."""
    keys = {"": ids, " of both stacks": ids} if len(set(use.tolist())) > 1 else {"": ids}
    factors = dict[str, Array]()
    for where in keys:
        key = ids if where else ids + use * (int(ids.max()) + 1)
        _, first, inverse, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        last = len(key) - 1 - np.unique(key[::-1], return_index=True)[1]
        for says, chosen in (("last", last), ("first", first)):
            counts_once = np.ones(count)
            counts_once[: len(key)] = np.isin(np.arange(len(key)), chosen)
            factors[f"of equal ids{where} only the {says} counts: they overwrite each other"] = counts_once
        mean = np.ones(count)
        mean[: len(key)] = 1 / counts[inverse]
        factors[f"equal ids{where} count as their mean, not as their sum"] = mean
    return factors


def _of_input(site: Site) -> Terms | None:
    """What each reader passes back."""
    if not 1 < len(site.inputs) <= _READERS:
        return None
    parts = []
    for dy, name in zip(site.inputs, site.place.parameters, strict=True):
        y = rows_of(dy) @ np.asarray(site.checkpoint[name], np.float64)
        parts.append(y.reshape(*dy.shape[:2], -1))
    if "heads" in site.place.axes:
        parts = [y.reshape(*y.shape[:2], -1, site.config.head_dim) for y in parts]
    names = [name.removeprefix("gradient.") for name in site.names]
    layers = np.array([f"layer {name.partition('.layers.')[2].partition('.')[0] or 0}" for name in names])
    kinds = np.array([name.rpartition(".")[2] for name in names])
    return Terms(
        np.stack(parts), [f"what {name} passes back" for name in names], {}, {"layer": layers, "kind of reader": kinds}
    )


def _of_loss(site: Site) -> Terms | None:
    """What all tokens cost together, less the labels' part; that of all tokens alike is none of it."""
    rows, labels = _labelled(site)
    total = np.log(np.exp(rows).sum(1))
    return _smoothed(total.mean(), -rows[np.arange(len(labels)), labels].mean(), -rows.mean())


def _of_loss_gradient(site: Site) -> Terms | None:
    rows, labels = _labelled(site)
    logits, targets = site.inputs
    alike, of_labels = (np.zeros((len(labels), logits.shape[-1])) for _ in range(2))
    of_labels[np.arange(len(labels)), labels] = -1
    alike -= 1 / logits.shape[-1]
    parts = []
    for values in (np.exp(rows) / np.exp(rows).sum(1, keepdims=True), of_labels, alike):
        part = np.zeros(logits.shape)
        part[targets != IGNORED_LABEL] = values / len(labels)
        parts.append(part)
    return _smoothed(*parts)


def _labelled(site: Site) -> tuple[Array, Array]:
    logits, labels = site.inputs
    counts = labels != IGNORED_LABEL
    rows = np.asarray(logits[counts], np.float64)
    return rows - rows.max(1, keepdims=True), labels[counts]


def _smoothed(probable: Array, of_labels: Array, alike: Array) -> Terms | None:
    factors = {f"label smoothing of {by} is on": np.array([1, 1 - by, by]) for by in _SMOOTHINGS}
    names = ["the part of the probabilities", "the labels' part", "the part of label smoothing"]
    return Terms(np.stack([probable, of_labels, alike]), names, factors, {}, np.array([1.0, 1.0, 0.0]))


_TERMS: Mapping[str, Callable[[Site], Terms | None]] = {
    "weight_gradient": _of_weight,
    "norm_weight_gradient": _of_norm_weight,
    "bias_gradient": _of_bias,
    "embedding_gradient": _of_embedding,
    "linear_input_gradient": _of_input,
    "loss": _of_loss,
    "loss_gradient": _of_loss_gradient,
}
