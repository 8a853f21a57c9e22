"""Which elements of a tap are judged. The rest (padding, hidden keys) must be finite, and no more.

Everything comes from the golden: its attention masks among the inputs, its steps and windows, its `mask` taps. A
candidate has no say in what it is judged on.
"""

from __future__ import annotations

import numpy as np

from qwen3_golden import ENCODERS, Array, ParityError, Recording, Tensor, pb
from qwen3_reference.floors.scope import BY_ROW, layer_mask
from qwen3_spec import ops
from qwen3_spec.site import Place

_WHOLE = ("input", "inv_freq", "argmax")
_GRADIENT = "gradient."
_END = ("encoder.norm", "decoder.norm", "logits", "pre_norm.norm", "post_norm.last_hidden_state")


class Scope:
    """The judged elements of a golden's taps; masks are read or computed once."""

    def __init__(self, golden: Recording) -> None:
        self._golden = golden
        self._masks: dict[tuple[str, int, int], Array | None] = {}
        self._alone = golden.case.mode == pb.OP

    @property
    def layers(self) -> int:
        """How many layers a stack of the golden has."""
        return self._golden.case.config.num_hidden_layers

    def judged(self, tensor: Tensor, place: Place | None) -> Array | None:
        """A bool array that broadcasts to the tap's shape, True = judged; None for all of it.

        Raises `ParityError` (harness bug) when the golden's own masks do not fit its taps.
        """
        rows, visible = self._rows(tensor, place), self._visible(tensor, place)
        if visible is None:
            return None if rows is None else self._fit(rows, tensor)
        return self._fit(visible if rows is None else rows & visible, tensor)

    def rows(self, tensor: Tensor, place: Place | None) -> Array | None:
        """As `judged` without a look at keys: the positions that count, or None for all of them."""
        rows = self._rows(tensor, place)
        return None if rows is None else self._fit(rows, tensor)

    def hidden(self, tensor: Tensor, place: Place | None) -> Array | None:
        """The cells of probabilities that must be exactly 0 in judged rows: hidden keys, removed tokens; or None."""
        if (tensor.info.op if place is None else place.op) == "next_token_probs":
            rows = self._rows(tensor, place)
            removed = np.asarray(tensor.array == 0)
            return removed if rows is None else removed & rows
        if tensor.info.op != "softmax" if place is None else place.op != "softmax":
            return None
        rows, visible = self._rows(tensor, place), self._visible(tensor, place)
        if visible is None:
            return None
        sees = visible.any(axis=-1, keepdims=True)
        return ~visible & sees if rows is None else ~visible & rows & sees

    def _visible(self, tensor: Tensor, place: Place | None) -> Array | None:
        """`[batch, 1, query, key]` for scores and probabilities, None for every other tap."""
        if place is None:
            mask = self._golden.get("input.mask") if self._alone and tensor.info.op == "softmax" else None
            return None if mask is None else mask.array[:, None]
        if place.layer is None or not (place.op in ops.OPS and ops.OPS[place.op].masked):
            return None
        visible = self._mask(_stack(place), place.layer, tensor.info.step, tensor.array.shape[2])
        return None if visible is None else visible[:, None]

    def _mask(self, stack: str, layer: int, step: int, length: int) -> Array | None:
        """A layer's mask `[batch, query, key]`: the tap, or what padding and window make of it; None without either."""
        key = stack, layer, step
        if key not in self._masks:
            attention = "merged_attn" if stack == "decoder" else "self_attn"
            tap = self._golden.get(f"{stack}.layers.{layer}.{attention}.mask", step)
            cut = self._golden.case.rows > 0  # a tap with some of its rows says nothing of the others
            self._masks[key] = self._computed(stack, layer, step) if tap is None or cut else tap.array
        visible = self._masks[key]
        return None if visible is None else visible[:, visible.shape[1] - length :]

    def _computed(self, stack: str, layer: int, step: int) -> Array | None:
        steps, of_encoder = self._golden.case.steps, stack != "decoder"
        if not of_encoder and self._input("input.decoder_attention_mask") is None:
            return None
        end, query = sum(steps[: step + 1]), 0 if of_encoder else steps[step]
        try:
            return layer_mask(self._golden.case.config, self._input, layer, end, query, of_encoder=of_encoder)
        except ValueError:
            shapes = [item.array.shape for item in self._golden if item.info.name.endswith("attention_mask")]
            raise self._do_not_fit(f"step {step}", "masks of as many rows in both stacks", shapes) from None

    def _input(self, name: str) -> Array | None:
        item = self._golden.get(name)
        return None if item is None else item.array

    def _real(self, stack: str) -> Array | None:
        """`[batch, slot]`: True where a token is no padding; None when the case has no such input."""
        attention_mask = self._input(f"input.{stack}_attention_mask")
        return None if attention_mask is None else attention_mask.astype(bool)

    def _rows(self, tensor: Tensor, place: Place | None) -> Array | None:
        """The rows (queries, or else keys) that are judged, broadcasting to the tap; None for all."""
        if place is None:
            return self._rows_alone(tensor)
        if place.name.startswith(_GRADIENT):  # what padding passes back is 0
            return None
        if place.op in BY_ROW and (texts := self._real("decoder")) is not None:
            live = texts[:, sum(self._golden.case.steps[: tensor.info.step + 1]) - 1]
            return live.reshape(-1, *[1] * (len(place.axes) - 1))
        if place.op in _WHOLE or not {"query", "key"} & set(place.axes):
            return None
        position = place.axes.index("query" if "query" in place.axes else "key")
        length = tensor.array.shape[position]
        if "query" in place.axes:
            rows = self._query_rows(place, tensor.info.step, length)
        else:
            real = self._real("encoder" if "encoder_" in place.name.rpartition(".")[2] else "decoder")
            rows = None if real is None else real[:, :length]
        if rows is None:
            return None
        shape = [1] * len(place.axes)
        shape[0], shape[position] = rows.shape
        return rows.reshape(shape)

    def _rows_alone(self, tensor: Tensor) -> Array | None:
        """For the mask of an op alone: the queries that are no padding, `[batch, query, 1]`."""
        real = self._real("decoder") if self._real("decoder") is not None else self._real("encoder")
        if not self._alone or tensor.info.op != "mask" or real is None:
            return None
        return real[:, real.shape[1] - tensor.array.shape[1] :, None]

    def _query_rows(self, place: Place, step: int, length: int) -> Array | None:
        """`[batch, query]`: neither padding nor, in this layer or one before, without any visible key."""
        stack = _stack(place)
        last = self._golden.case.config.num_hidden_layers - 1 if place.name in _END else -1
        layer = last if place.layer is None else place.layer
        layer_masks = [self._mask(stack, index, step, length) for index in range(layer + 1)]
        judged = [mask.any(axis=-1) for mask in layer_masks if mask is not None]
        real = self._real("decoder" if stack == "decoder" else "encoder")
        if real is not None:
            stop = sum(self._golden.case.steps[: step + 1]) if stack == "decoder" else real.shape[1]
            judged.append(real[:, stop - length : stop])
        return np.all(judged, axis=0) if judged else None

    def _fit(self, judged: Array, tensor: Tensor) -> Array | None:
        shape = tensor.array.shape
        if judged.ndim != len(shape) or any(n not in (1, m) for n, m in zip(judged.shape, shape, strict=True)):
            where = f"{tensor.info.name} (step {tensor.info.step})"
            raise self._do_not_fit(where, f"masks that broadcast to {shape}", judged.shape)
        return None if judged.all() else judged

    def _do_not_fit(self, where: str, expected: str, got: object) -> ParityError:
        return ParityError(
            f"{self._golden.source}: {where}",
            "the golden's masks do not fit its tap",
            expected=expected,
            got=got,
            next_step="record the golden again",
            fault="harness bug",
        )


def _stack(place: Place) -> str:
    """The first part of a name: "encoder", a classic network, or else "decoder"."""
    return place.name.removeprefix(_GRADIENT).partition(".")[0] if place.name.startswith(ENCODERS) else "decoder"
