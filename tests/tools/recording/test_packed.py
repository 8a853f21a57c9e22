"""Arrays of real tokens alone, as engines that pack their batch have them, are laid into the slots of the case.

What `recording.dumps.dumped_forwards` chooses and `recording.packed` lays out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from graph_goldens import BATCH, STEPS, golden_of, inputs, moe
from safetensors.numpy import save_file
from torch import nn

import qwen3_parity
from qwen3_golden import Array, ParityError, read
from qwen3_parity import Case
from qwen3_parity.recording.dumps.import_dump import import_dump
from qwen3_parity.recording.graph_steps import Wanted
from qwen3_parity.recording.packed import in_their_slots
from qwen3_parity.recording.tap_axes import parts_of

TAPS = ("model.layers.0.self_attn.k_norm", "model.layers.1.self_attn.query", "model.layers.1", "model.norm", "logits")
BOUNDS = [(sum(STEPS[:step]), sum(STEPS[: step + 1])) for step in range(len(STEPS))]
PADDED = 2


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Two slots of padding before the second of three texts."""
    padded = inputs()
    padded["attention_mask"][1, :PADDED] = 0
    path = tmp_path_factory.mktemp("packed") / "moe.pb"
    return qwen3_parity.golden(golden_of(moe(), path, padded, STEPS))


def tokens(case: Case, name: str, step: int, *, heads_first: bool = True) -> Array:
    """The real tokens of a golden's tap, `[tokens, ...]`, or `[heads, tokens, head_dim]`."""
    item, (start, stop) = case.golden[name, step], BOUNDS[step]
    rows = np.moveaxis(item.array, list(item.info.axes).index("query"), 1)
    packed = rows[case.arrays["attention_mask"][:, start:stop] != 0]
    return np.ascontiguousarray(packed.swapaxes(0, 1) if packed.ndim == 3 and heads_first else packed)


@pytest.mark.parametrize("heads_first", [False, True])
def test_real_tokens_alone_are_laid_into_their_slots(case: Case, heads_first: bool, tmp_path: Path) -> None:
    dump = {
        f"{step}.{name}": tokens(case, name, step, heads_first=heads_first)
        for name in TAPS
        for step in range(len(STEPS))
    }
    dump |= {f"{step}.input_ids": case.arrays["input_ids"][:, slice(*BOUNDS[step])] for step in (1, 2)}
    dump["0.input_ids"] = case.arrays["input_ids"][:, : STEPS[0]][case.arrays["attention_mask"][:, : STEPS[0]] != 0]
    save_file({name: np.ascontiguousarray(array) for name, array in dump.items()}, tmp_path / "own.safetensors")
    summary = import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    laid = Case(summary.path, read(summary.path))
    assert not summary.misfits and summary.tensors == len(TAPS) * len(STEPS)
    assert all((tokens(laid, name, step) == tokens(case, name, step)).all() for name in TAPS for step in (0, 1, 2))
    assert not laid.golden["model.norm", 0].array[1, :PADDED].any()


def test_as_many_heads_as_texts_are_read_as_in_the_forward_with_padding() -> None:
    """[heads, tokens, head_dim] of a decode step may be read as texts first: the prefill says that it is not."""
    orders, mask = dict[str, tuple[str, ...]](), np.ones((2, 4), bool)
    mask[0, 0] = False
    for real, shape in ((mask[:, :3], (2, 3, 2, 10)), (mask[:, 3:], (2, 1, 2, 10))):
        tap = np.random.default_rng(0).normal(size=shape)
        parts = parts_of(("batch", "query", "heads", "head_dim"), shape, 2)
        name = f"model.layers.{shape[1]}.self_attn.k_norm"
        packed, layout = tap[real].swapaxes(0, 1), Wanted(parts, (False, True, False, False), (0,))
        laid, _ = in_their_slots(orders, name, packed, layout, real, (), by_name=False)
        assert laid.shape == shape and (laid[real] == tap[real]).all()


@pytest.mark.parametrize("heads_first", [False, True])
def test_arrays_that_are_assigned_are_laid_by_the_same_mask(case: Case, heads_first: bool, tmp_path: Path) -> None:
    with qwen3_parity.record(None, case, path=tmp_path / "made.pb") as recording:
        for name in TAPS:
            for step in range(len(STEPS)):
                recording[name, step] = tokens(case, name, step, heads_first=heads_first)
    laid = Case(recording.path, read(recording.path))
    assert all((tokens(laid, name, step) == tokens(case, name, step)).all() for name in TAPS for step in (0, 1, 2))


class Packed(nn.Module):
    """A server's engine: one forward of the real tokens of all texts, under names of the golden and of its own."""

    def __init__(self, case: Case, step: int) -> None:
        super().__init__()
        self.norm, self.mix, self.lm_head = nn.Identity(), nn.Identity(), nn.Identity()
        self.case, self.step = case, step

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        def of(name: str) -> torch.Tensor:
            return torch.from_numpy(tokens(self.case, name, self.step, heads_first=False))

        products = [of(f"model.layers.0.self_attn.{name}_proj") for name in "qkv"]
        self.norm(of("model.norm"))
        self.mix(torch.cat(products, -1))
        return self.lm_head(of("logits"))  # type: ignore[no-any-return]


def test_a_forward_over_real_tokens_alone_is_recorded_by_hooks(case: Case, tmp_path: Path) -> None:
    names = {
        "norm": "model.norm",
        "lm_head": "logits",
        "mix": [f"model.layers.0.self_attn.{name}_proj" for name in "qkv"],
    }
    model = Packed(case, 0)
    with qwen3_parity.record(model, case, names, path=tmp_path / "made.pb") as recording:
        for model.step, (start, stop) in enumerate(BOUNDS):
            real = case.arrays["attention_mask"][:, start:stop] != 0
            model(*(torch.from_numpy(case.arrays[name][:, start:stop][real]) for name in ("input_ids", "position_ids")))
    laid = Case(recording.path, read(recording.path))
    known = [(name, step) for name, step in recording._keys if "input" not in name]
    assert len(known) == 5 * len(STEPS)
    assert all((tokens(laid, *key) == tokens(case, *key)).all() for key in known)


def test_a_forward_of_other_tokens_is_refused_with_what_to_do(case: Case, tmp_path: Path) -> None:
    model, chunk = Packed(case, 0), torch.from_numpy(case.arrays["input_ids"][:2, :5].reshape(-1))
    with (
        pytest.raises(ParityError, match=r"not the case's input_ids") as refusal,
        qwen3_parity.record(model, case, {"norm": "model.norm"}, path=tmp_path / "made.pb"),
    ):
        model(chunk, chunk)
    assert "slots[mask] = packed" in refusal.value.next_step


def test_other_ids_of_real_tokens_alone_are_refused(case: Case, tmp_path: Path) -> None:
    ids = case.arrays["input_ids"][:, : STEPS[0]][case.arrays["attention_mask"][:, : STEPS[0]] != 0]
    save_file(
        {"0.input_ids": ids[::-1].copy(), "0.model.norm": tokens(case, "model.norm", 0)}, tmp_path / "own.safetensors"
    )
    with pytest.raises(ParityError, match="input_ids is another"):
        import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")


def test_what_cannot_be_read_so_is_counted_in_tokens_and_slots(case: Case, tmp_path: Path) -> None:
    real = BATCH * STEPS[0] - PADDED
    save_file({"0.model.layers.0.self_attn.key": np.zeros((real, 2, 8), np.float32)}, tmp_path / "own.safetensors")
    with pytest.raises(ParityError) as refusal:
        import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    assert f"{real} tokens are the real ones of {BATCH * STEPS[0]} slots" in refusal.value.got
    assert "docs/dumps.md" in refusal.value.next_step


def test_of_a_stack_in_the_table_they_are_counted_too(tmp_path: Path) -> None:
    padded = qwen3_parity.golden("decoder/ragged_decode")
    real = int(padded.arrays["attention_mask"][:, : padded.lengths[0]].sum())
    save_file({"0.decoder.norm": np.zeros((real, 40), np.float32)}, tmp_path / "own.safetensors")
    with pytest.raises(ParityError, match="no array has the shape") as refusal:
        import_dump(tmp_path / "own.safetensors", padded, path=tmp_path / "made.pb")
    assert f"{real} tokens are the real ones of" in refusal.value.got
