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


def embedding_parts(site: Site) -> dict[str, Result]:
    """The uses of the embedding: the look-up of each stack, and a tied head, each `[vocab, hidden]` with its unit."""
    given = dict(zip(site.names, site.inputs, strict=True))
    weight = site.checkpoint["decoder.embed_tokens.weight"]
    padding = site.case.training.padding_idx if site.case.training.HasField("padding_idx") else None
    parts: dict[str, Result] = {}
    for stack in ("encoder", "decoder"):
        dy, ids = given.get(f"gradient.{stack}.embed_tokens"), given.get(f"input.{stack}_input_ids")
        if dy is not None and ids is not None:
            total = backward(dy, ids, len(weight), padding)
            parts[stack] = total, as_unit(backward(np.abs(dy), ids, len(weight), padding))
    if site.config.tie_word_embeddings:
        parts["head"] = linear.judged(
            linear.rows_of(given["gradient.logits"]).T, linear.rows_of(given["decoder.norm"]).T
        )
    return parts


def _gradient(site: Site) -> Result:
    return linear.added(list(embedding_parts(site).values()))


def _gradient_at_site(site: Site, _arithmetic: Arithmetic) -> Array:
    return _gradient(site)[0]


OPS = (
    Op("embedding", at_site),
    Op("embedding_gradient", _gradient_at_site, both=_gradient),
)
