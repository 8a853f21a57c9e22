"""The inputs of a golden with a graph, cut into the steps of its case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qwen3_golden import Array, ParityError

_IDS = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")
"""What a forward's slots are counted in, a decoder's first: what its encoder is given has a length of its own."""


def ids_among(arrays: Mapping[str, Array], where: object) -> str:
    """The name of the ids or embeddings among the inputs of a case; raises `ParityError` where there are none."""
    for name in _IDS:
        if name in arrays and arrays[name].ndim > 1:
            return name
    raise ParityError(
        where,
        "its inputs have no ids, so nobody can tell which slots a forward covers",
        expected=f"[batch, slot] as input.{' or input.'.join(_IDS)}",
        got=", ".join(f"input.{name}" for name in arrays) or "no input",
        next_step="capture the model on ids, or on embeddings in their place",
    )


def refuse_other_steps(steps: Sequence[int], ids: Array, where: object) -> None:
    """Raise `ParityError` where the steps of a case are none, or not as long as its ids `[batch, slot]` together."""
    if min(steps, default=0) > 0 and sum(steps) == ids.shape[1] and ids.size:
        return
    raise ParityError(
        where,
        "the steps of the case are not those of its ids",
        expected="one row or more, and query lengths of all slots together",
        got=f"shape {list(ids.shape)}, steps {list(steps)}",
        next_step="capture the golden again",
    )


def until(
    arrays: Mapping[str, Array], axes: Mapping[str, Sequence[str]], total: int, start: int, stop: int
) -> dict[str, Array]:
    """The inputs of the slots `start` to `stop` of `total`: a mask of tokens from slot 0, what has no slots whole.

    An axis called "query" is cut at both ends, one called "key" at its end; without names the second of `total` slots
    is one. Beside a decoder's inputs those of its encoder are whole.
    """
    decoder = any(name.startswith("decoder_") for name in arrays)
    cut = dict[str, Array]()
    for name, array in arrays.items():
        named = axes.get(name) or ("batch", "query", *("channel",) * array.ndim)[: array.ndim]
        whole = decoder and not name.startswith("decoder_")
        slices = [slice(None)] * array.ndim
        for number, (axis, size) in enumerate(zip(named, array.shape, strict=True)):
            if whole or size != total or axis not in ("query", "key"):
                continue
            from_start = axis == "key" or (array.ndim == 2 and name.endswith("attention_mask"))
            slices[number] = slice(0 if from_start else start, stop)
        cut[name] = array[tuple(slices)]
    return cut
