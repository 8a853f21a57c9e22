"""Which elements of a tap are judged. The rest (padding, hidden keys) must be finite, and no more.

Everything comes from the golden: its attention masks among the inputs, its steps, and its `mask` taps. A candidate has
no say in what it is judged on.
"""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array, ParityError, Place, Recording, Tensor

_VISIBLE_ONLY = ("scores", "softmax")
"""Ops whose cells are judged where the mask is True; hidden probabilities must be exactly 0 on top of it."""


class Scope:
    """The judged elements of a golden's taps; masks are read once."""

    def __init__(self, golden: Recording) -> None:
        self._golden = golden
        self._rows: dict[tuple[str, int, int], Array | None] = {}
        self._last_layer = golden.case.config.num_hidden_layers - 1

    def judged(self, tensor: Tensor, place: Place | None) -> Array | None:
        """A bool array that broadcasts to the tap's shape, True = judged; None for all of it.

        Raises `ParityError` (harness bug) when the golden's own masks do not fit its taps.
        """
        rows = self._rows_of(tensor, place)
        visible = None if place is None or place.op not in _VISIBLE_ONLY else self.visible(tensor, place)
        if visible is None:
            return None if rows is None else self._fit(rows, tensor)
        return self._fit(visible[:, None] if rows is None else rows & visible[:, None], tensor)

    def hidden(self, tensor: Tensor, place: Place | None) -> Array | None:
        """The cells of probabilities that must be exactly 0: hidden keys in judged rows; None for every other tap."""
        if place is None or place.op != "softmax":
            return None
        visible, rows = self.visible(tensor, place), self._rows_of(tensor, place)
        if visible is None:
            return None
        return ~visible[:, None] if rows is None else rows & ~visible[:, None]

    def visible(self, tensor: Tensor, place: Place) -> Array | None:
        """The mask tap `[batch, query, key]` of the attention that `tensor` belongs to, None where there is none."""
        mask = self._golden.get(f"{place.name.rpartition('.')[0]}.mask", tensor.info.step)
        return None if mask is None else mask.array

    def _rows_of(self, tensor: Tensor, place: Place | None) -> Array | None:
        """The rows (queries, or else keys) that are judged, broadcasting to the tap; None for all."""
        if place is None or place.op in ("input", "inv_freq", "argmax"):
            return None
        axes, last = place.axes, place.name.rpartition(".")[2]
        if "query" in axes:
            stack, position = ("encoder" if place.name.startswith("encoder.") else "decoder"), axes.index("query")
            length = tensor.array.shape[position]
            rows = self._query_rows(stack, tensor.info.step, length, self._layer_of(place))
        elif "key" in axes:
            stack, position = ("encoder" if "encoder_" in last else "decoder"), axes.index("key")
            rows = self._key_slots(stack, tensor.array.shape[position])
        else:
            return None
        if rows is None:
            return None
        shape = [1] * len(axes)
        shape[0], shape[position] = rows.shape
        return rows.reshape(shape)

    def _layer_of(self, place: Place) -> int:
        """The layers up to this one have been passed, which decides whose rows without a visible key are spoilt."""
        if place.layer is not None:
            return place.layer
        at_the_end = place.name in ("encoder.norm", "decoder.norm", "logits")
        return self._last_layer if at_the_end else -1

    def _query_rows(self, stack: str, step: int, length: int, layer: int) -> Array | None:
        """`[batch, query]`: neither padding nor, in this layer or one before, without any visible key."""
        key = stack, step, layer
        if key not in self._rows:
            attention = "self_attn" if stack == "encoder" else "merged_attn"
            masks = (self._golden.get(f"{stack}.layers.{i}.{attention}.mask", step) for i in range(layer + 1))
            kept = [mask.array.any(axis=-1) for mask in masks if mask is not None]
            real = self._golden.get(f"input.{stack}_attention_mask")
            if real is not None:
                start = sum(self._golden.case.steps[:step]) if stack == "decoder" else 0
                kept.append(real.array[:, start : start + length].astype(bool))
            self._rows[key] = np.all(kept, axis=0) if kept else None
        return self._rows[key]

    def _key_slots(self, stack: str, length: int) -> Array | None:
        """`[batch, key]`: slots that are not padding."""
        real = self._golden.get(f"input.{stack}_attention_mask")
        return None if real is None else real.array[:, :length].astype(bool)

    def _fit(self, judged: Array, tensor: Tensor) -> Array | None:
        shape = tensor.array.shape
        if judged.ndim != len(shape) or any(n not in (1, m) for n, m in zip(judged.shape, shape, strict=True)):
            raise ParityError(
                f"{self._golden.source}: {tensor.info.name} (step {tensor.info.step})",
                "the golden's masks do not fit its tap",
                expected=f"masks that broadcast to {shape}",
                got=judged.shape,
                next_step="record the golden again",
                fault="harness bug",
            )
        return None if judged.all() else judged
