"""Capture of any transformers model: texts or ids become the inputs of its forwards, the golden one file."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from qwen3_golden import ParityError
from qwen3_parity.checkpoints.foreign import refuse_foreign
from qwen3_parity.recording.request import model_directory, tokenize
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.load import is_causal, load
from qwen3_reference.graph.pooled import Around, LastToken, Scored
from qwen3_reference.graph.steps import generates


def capture_model(
    model: str,
    path: Path,
    rows: Sequence[Sequence[int]] | Sequence[str],
    *,
    tokenizer: str | None = None,
    steps: int = 0,
    dtype: torch.dtype = torch.float32,
    floors: bool = True,
    padding: str = "",
    pool: bool = False,
    dimensions: int = 0,
    score: str = "",
) -> None:
    """Write the golden of a local checkpoint on rows of ids, or on texts, to `path`.

    A decoder takes the last `steps` tokens one by one behind a prefill; an encoder–decoder reads the rows, and decodes
    its start token and `steps` tokens that it chooses greedily. `padding` is "left" or "right", empty for the left of a
    decoder and the right of all others. `pool` and `dimensions` as in `LastToken`, of the model without its head;
    `score` has the answers of `Scored`, "no,yes", as ids or as texts of one token each. Raises `ParityError` as
    `qwen3_reference`'s capture.
    """
    refuse_foreign(Path(model), None)
    directory = model_directory(model)
    refuse_foreign(directory, None)
    words = model_directory(tokenizer) if tokenizer else directory
    ids: Sequence[Sequence[int]] = [row for row in rows if not isinstance(row, str)]
    if texts := [row for row in rows if isinstance(row, str)]:
        ids = tokenize(texts, words)
    answers = answers_of(score, words) if score else None
    network = load(directory, dtype, bare=pool)
    around: Around | None = LastToken(network, dimensions) if pool else None
    if answers is not None:
        around = Scored(network, *answers)
    if around is not None and (network.config.is_encoder_decoder or not (pool or generates(network))):
        raise ParityError(
            "--pool" if pool else "--score",
            "this model has no last token to read",
            expected="a stack of one side" if pool else "a causal language model",
            got=type(network).__name__,
            next_step="give another model",
        )
    inputs, lengths = inputs_of(network, ids, steps, padding)
    whole = network if around is None else around
    capture(whole, inputs, path, steps=lengths, name=path.stem, checkpoint=directory, floors=floors)


def answers_of(score: str, tokenizer: Path) -> tuple[int, int]:
    """The ids of "no,yes", which may be numbers or texts; raises `ParityError` for anything but two single tokens."""
    words = [word.strip() for word in score.split(",")]
    numbers = all(word.isascii() and word.isdecimal() for word in words)
    ids = [[int(word)] for word in words] if numbers else tokenize(words, tokenizer, special=False)
    if [len(row) for row in ids] != [1, 1]:
        raise ParityError(
            "--score",
            "these are not two answers of one token each",
            expected="no,yes, or their ids",
            got=score,
            next_step="give two ids of the checkpoint's tokenizer",
        )
    return ids[0][0], ids[1][0]


def inputs_of(
    network: Any, rows: Sequence[Sequence[int]], steps: int, padding: str = ""
) -> tuple[dict[str, torch.Tensor], tuple[int, ...]]:
    """What a model's forwards take for rows of ids, padded on the left for a decoder, and their query lengths.

    Raises `ParityError` for a model that hears, for no ids, for those that are not in the vocabulary, for more steps
    than there are tokens, and for steps behind rows that are padded on the right.
    """
    config, names = network.config, inspect.signature(network.forward).parameters
    if "input_ids" not in names:
        raise ParityError(
            "--text or --ids",
            "this model reads no text",
            expected="a forward that takes input_ids",
            got=f"{type(network).__name__}, which takes {network.main_input_name}",
            next_step="in Python: qwen3_reference.graph.capture.capture(model, inputs, path, checkpoint=DIR)",
        )
    merged, decodes = bool(config.is_encoder_decoder), generates(network)
    left = padding == "left" or (not padding and (is_causal(config) or decodes) and not merged)
    _refuse_ids(rows, network.get_input_embeddings().weight.shape[0])
    width = max(map(len, rows))
    if (steps and not decodes) or (steps and not merged and (steps >= width or not left)):
        few = f"at most {width - 1}, padded on the left: a prefill comes first"
        raise ParityError(
            "--steps",
            "there are no such steps",
            expected=few if decodes else "none: this model decodes nothing",
            got=steps,
            next_step="give fewer --steps, or longer texts",
        )
    pad = getattr(config, "pad_token_id", None)
    ids, mask = _padded(rows, pad if isinstance(pad, int) else 0, left=left)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if merged:
        chosen = _decoded(network, inputs, steps)
        return inputs | {"decoder_input_ids": chosen}, (1,) * chosen.shape[1]
    if left and is_causal(config) and "position_ids" in names:
        inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)  # as generate has them
    return inputs, (width - steps, *[1] * steps) if decodes else ()


def _refuse_ids(rows: Sequence[Sequence[int]], size: int) -> None:
    if outside := [number for row in rows for number in row if not 0 <= number < size]:
        raise ParityError(
            "request",
            "an id is not in the vocabulary",
            expected=f"ids from 0 to {size - 1}",
            got=outside[0],
            next_step="use the checkpoint's own tokenizer",
        )
    if not rows or not all(rows):
        raise ParityError(
            "request",
            "a row has no tokens",
            expected="at least one token in each",
            got="none",
            next_step="give a text or ids",
        )


def _padded(rows: Sequence[Sequence[int]], pad: int, *, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, `[batch, longest row]`."""
    width = max(map(len, rows))
    ids, mask = torch.full((len(rows), width), pad), torch.zeros(len(rows), width, dtype=torch.long)
    for number, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(len(row))
        ids[number, place], mask[number, place] = torch.tensor(row), 1
    return ids, mask


def _decoded(network: Any, inputs: dict[str, torch.Tensor], steps: int) -> torch.Tensor:
    """The start token and what the model chooses behind it, `[batch, 1 + steps]`."""
    start = getattr(network.config, "decoder_start_token_id", None)
    start = start if start is not None else network.generation_config.decoder_start_token_id
    ids = torch.full((len(inputs["input_ids"]), 1), int(start if start is not None else 0))
    with torch.no_grad():
        for _ in range(steps):
            logits = network(**inputs, decoder_input_ids=ids).logits
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    return ids
