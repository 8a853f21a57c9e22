"""Token embeddings: rows of a matrix, copied, never scaled."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.ops import linear
from qwen3_spec.rounding import as_unit
from qwen3_spec.site import Result, Site


def forward(ids: Array, weight: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Rows of `weight[vocab, hidden]` at `ids[batch, seq]` -> `[batch, seq, hidden]`; an exact copy, never scaled.

    Source: `Qwen3Model.embed_tokens` (torch `Embedding`). No cast. Raises `IndexError` for an id outside the
    vocabulary, a negative one included (NumPy alone would count it from the end).
    """
    if ids.size and (ids.min() < 0 or ids.max() >= weight.shape[0]):
        raise IndexError(f"ids span {ids.min()}..{ids.max()}, the embedding has rows 0..{weight.shape[0] - 1}")
    return arithmetic.cast(weight[ids])


def unit(ids: Array, weight: Array) -> Array:
    """Zero, `[batch, seq, hidden]`: a row is copied."""
    return np.zeros((*ids.shape, weight.shape[1]))


def backward(
    dy: Array, ids: Array, vocab_size: int, padding_idx: int | None = None, *, arithmetic: Arithmetic = FLOAT64
) -> Array:
    """By the weight `[vocab, hidden]`: row t is the sum of `dy[batch, seq, hidden]` over the slots whose id is t.

    Rows that no slot reads are 0, and so is the row `padding_idx`, whatever reads it (torch `Embedding`; HF's models
    give it `config.pad_token_id`).
    """
    dweight = np.zeros((vocab_size, dy.shape[-1]), arithmetic.dtype)
    np.add.at(dweight, ids, arithmetic.cast(dy))
    if padding_idx is not None:
        dweight[padding_idx] = 0
    return dweight


def at_site(site: Site, arithmetic: Arithmetic) -> Array:
    """The rows of this step's ids."""
    return forward(site.this_step(site.inputs[0]), site.parameters["weight"], arithmetic=arithmetic)


def _looked_up(site: Site) -> dict[str, tuple[Array, Array]]:
    """Of each stack the gradient of its embedded tokens, and their ids."""
    inputs = dict(zip(site.names, site.inputs, strict=True))
    names = {stack: (f"gradient.{stack}.embed_tokens", f"input.{stack}_input_ids") for stack in ("encoder", "decoder")}
    return {stack: (inputs[dy], inputs[ids]) for stack, (dy, ids) in names.items() if dy in inputs and ids in inputs}


def _by_rows(site: Site, dy: Array, ids: Array, arithmetic: Arithmetic = FLOAT64) -> Array:
    training, rows = site.case.training, len(site.checkpoint["decoder.embed_tokens.weight"])
    padding = training.padding_idx if training.HasField("padding_idx") else None
    return backward(dy, ids, rows, padding, arithmetic=arithmetic)


def embedding_parts(site: Site) -> dict[str, Result]:
    """The uses of the embedding: the look-up of each stack, and a tied head, each `[vocab, hidden]` with its unit."""
    parts: dict[str, Result] = {
        stack: (_by_rows(site, dy, ids), as_unit(_by_rows(site, np.abs(dy), ids)))
        for stack, (dy, ids) in _looked_up(site).items()
    }
    if site.config.tie_word_embeddings:
        d_logits, x = site.inputs[-2:]
        parts["head"] = linear.judged(linear.rows_of(d_logits).T, linear.rows_of(x).T)
    return parts


def _gradient(site: Site, arithmetic: Arithmetic) -> Array:
    parts = [_by_rows(site, dy, ids, arithmetic) for dy, ids in _looked_up(site).values()]
    if site.config.tie_word_embeddings:
        parts.append(linear.by_weight(*site.inputs[-2:], arithmetic=arithmetic))
    return linear.total(parts)


def _gradient_judged(site: Site) -> Result:
    return linear.added(list(embedding_parts(site).values()))


OPS = (
    Op("embedding", at_site),
    Op("embedding_gradient", _gradient, both=_gradient_judged),
)
