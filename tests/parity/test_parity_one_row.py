"""A decode step of one row takes a function of its own, seen by no hook in a layer, but by the cache and the logits.

Every row of a case is run alone. What a layer adds to the cache (keys normed and rotated, values), the final norm and
the logits of every step are judged against Hugging Face's, within the budgets of the rows in one batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen3_encdec import modeling_qwen3_decoder, one_row
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity.check import check
from qwen3_parity.honest.batches import Regrouped
from qwen3_parity.implementation import EncoderDecoder, encoder_decoder
from qwen3_parity.record import Tap, record
from qwen3_parity.verdict import Verdicts

CASES = [f"encdec/{name}" for name in ("ragged", "window", "unrotated", "unpadded", "second_request", "qwen2")]
CASES += ["encdec/bfloat16", "models/qwen3-0.6b", "models/qwen2.5-7b", "models/qwen3-8b-yarn"]
IN_CACHE = {"cache_keys": (0, 0), "cache_values": (0, 1), "cache_encoder_keys": (1, 0), "cache_encoder_values": (1, 1)}


class Alone(EncoderDecoder):
    """Our model under plain SDPA, looked at from outside of its layers."""

    @contextmanager
    def _recorded(self, tap: Tap, step: int, wanted: Callable[[str], bool], encoder_length: int) -> Iterator[None]:
        decoder: Any = self.model.decoder

        def outside(_module: Any, _args: Any, output: Any) -> None:
            cache = output.past_key_values
            halves = cache.self_attention_cache, cache.cross_attention_cache
            for index in range(len(decoder.layers)):
                for name, (half, which) in IN_CACHE.items():
                    layer, place = halves[half].layers[index], f"decoder.layers.{index}.merged_attn.{name}"
                    if wanted(place):
                        tap(place, step, (layer.keys, layer.values)[which].clone())
            tap("decoder.norm", step, output.last_hidden_state)

        handle = decoder.register_forward_hook(outside)
        try:
            yield
        finally:
            handle.remove()


def rows_alone(case: pb.Case, checkpoints: Mapping[str, Path]) -> Regrouped:
    golden = read(GOLDEN_ROOT / "cases" / f"{case.name}.pb")
    bfloat16 = golden.run.arithmetic == pb.ARITHMETIC_BF16
    dtype = torch.bfloat16 if bfloat16 else torch.float32
    runner = encoder_decoder(case, checkpoints, backend="sdpa", dtype=dtype)
    assert isinstance(runner, EncoderDecoder)
    runner.__class__ = Alone
    runner.model.set_attn_implementation("sdpa")
    shown = [
        "decoder.norm",
        "logits",
        "generated_ids",
        *(f"decoder.layers.{{layer}}.merged_attn.{name}" for name in IN_CACHE),
    ]
    arithmetic = pb.ARITHMETIC_BF16 if bfloat16 else pb.ARITHMETIC_F32
    runner.run = pb.Run(arithmetic=arithmetic, backend=pb.SDPA, materialised=shown)
    return Regrouped(runner, lambda rows: [[row] for row in range(rows)])


def judged(name: str, folder: Path) -> Verdicts:
    golden = GOLDEN_ROOT / "cases" / f"{name}.pb"
    record(read(golden), folder / "alone.pb", rows_alone)
    return check(golden, folder / "alone.pb")


def counted(monkeypatch: pytest.MonkeyPatch, decode_row: Callable[..., Any] = one_row.decode_row) -> list[bool]:
    """Whether `decode_row` did the step, for every forward of the decoder from now on."""
    taken: list[bool] = []

    def watched(*given: Any) -> Any:
        found = decode_row(*given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(modeling_qwen3_decoder, "decode_row", watched)
    return taken


@pytest.mark.parametrize("name", CASES)
def test_a_row_alone_is_within_budget_in_what_it_caches_and_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = counted(monkeypatch)
    found = judged(name, tmp_path)
    assert (found.word, found.problems) == ("parity", [])
    golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
    steps, rows = list(golden.case.steps), len(golden["input.decoder_input_ids", 0].array)
    assert found.compared >= 2 * len(steps) and sum(taken) >= rows * steps.count(1) > 0


BUGS = {
    "adjacent pairs are rotated": (
        "cat(scratch.halves, dim=1, out=turned)",
        "stack((-straight[:, 1::2], straight[:, ::2]), 2, out=turned.view(8, 5, 2))",
    ),
    "the sine has the other sign": ("torch.cat((-sin[:half], sin[half:]))", "torch.cat((sin[:half], -sin[half:]))"),
    "the halves stay where they are": ("self.straight[:, half:], self.straight[:, :half]", "self.straight.chunk(2, 1)"),
    "no rotation": (".add_(turned.mul_(scratch.signed_sin))", "; heads.copy_(straight)"),
    "keys and values change places": ("copy_(scratch.keys_values)", "copy_(scratch.keys_values.flip(0))"),
    "no mask": ("keys, values, mask.additive", "keys, values, None"),
    "scores are not scaled": ("mask.additive, scale=scaling", "mask.additive, scale=1.0"),
    "another group's keys": ("attend(scratch.queries", "attend(scratch.queries.flip(1)"),
    "no stream beside attention": ("stream = stream + _product(layer.o_proj", "stream = 0 + _product(layer.o_proj"),
    "no stream beside the MLP": ("stream = stream + _product(layer.down_proj", "stream = 0 + _product(layer.down_proj"),
    "up and gate change places": ("layer.act(gate).mul_(up)", "layer.act(up).mul_(gate)"),
    "no activation": ("layer.act(gate)", "gate"),
    "one norm serves both": ("layer.post_attention_layernorm", "layer.input_layernorm"),
    "no final norm": ("return _normed(stream, plain[1], eps, branch)", "return stream"),
    "queries' norm for the keys": ("straight_keys.mul_(head_norms[1])", "straight_keys.mul_(head_norms[0])"),
    "heads are not normed": ("if head_norms is not None", "if straight.copy_(heads) is None"),
    "eps of the heads is another": ("math.sqrt(dim * config.rms_norm_eps)", "math.sqrt(dim) * config.rms_norm_eps"),
    "eps of the stream is another": ("+ width * eps", "+ 2 * width * eps"),
    "the last layer is left out": ("zip(plain[0], rooms, masks, strict=True)", "zip(plain[0][:-1], rooms, masks)"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_it_diverges(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, (right, wrong) = inspect.getsource(one_row), BUGS[bug]
    assert right in source
    scope: dict[str, Any] = {"__name__": one_row.__name__, "__package__": one_row.__package__}
    exec(compile(source.replace(right, wrong), bug, "exec"), scope)
    taken = counted(monkeypatch, scope["decode_row"])
    found = judged("encdec/ragged", tmp_path)
    assert any(taken) and found.word == "divergence" and not found.structural
    assert found.worst is not None and found.worst.share > 2
