"""A check of the recorder itself: a recorded softmax must follow, bit for bit, from the recorded scores and mask."""

from __future__ import annotations

import torch

from qwen3_golden import ParityError, Recording, Tensor
from qwen3_reference.torch_tensors import to_torch


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A bool mask, True = visible, as HF's eager attention adds it: 0 or the dtype's lowest number."""
    return torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)


def check_softmax(recording: Recording) -> None:
    """Compute every recorded softmax again as HF does, in float32; raises `ParityError` (harness bug) for another bit.

    Probabilities without their scores or mask in the recording are passed over. Done on what was written, after the
    run: beside it, it would cost a fifth of a forward.
    """
    for item in recording:
        site, _, last = item.info.name.rpartition(".")
        scores, mask = (recording.get(f"{site}.{name}", item.info.step) for name in ("scores", "mask"))
        if last == "probs" and scores is not None and mask is not None:
            _check(item, site, scores, mask)


def _check(item: Tensor, site: str, scores: Tensor, mask: Tensor) -> None:
    probs = to_torch(item.array, item.info.dtype)
    added = to_torch(scores.array, scores.info.dtype)
    added = added + additive(torch.from_numpy(mask.array.copy()), added.dtype)[:, None]
    expected = torch.softmax(added, dim=-1, dtype=torch.float32).to(probs.dtype)
    if torch.equal(probs, expected):
        return
    raise ParityError(
        item.info.name,
        "the recorded probabilities are not the softmax of the recorded scores and mask",
        expected=f"softmax of {site}.scores + {site}.mask, bit for bit",
        got=f"{int((probs != expected).sum())} of {probs.numel()} elements differ",
        next_step="find what attention does between scores and softmax, and record it",
        fault="harness bug",
    )
