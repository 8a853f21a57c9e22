"""Recording sees everything that the table names, and changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, pattern_of, place
from qwen3_reference.binding import SITES, attach
from qwen3_reference.capture.models import RECORDING, Reference
from qwen3_reference.capture.record import record
from qwen3_reference.capture.recorded_attention import recording_attention
from qwen3_reference.capture.run import run_encoder, run_reference
from qwen3_reference.cases.networks import CASES, case
from qwen3_reference.checkpoints.families import FAMILIES
from qwen3_reference.torch_tensors import visible

ENCODER_DECODER = [c.name for c in CASES if c.name.startswith("encdec/") and c.dtype == "float32"]
FLOAT32 = [c.name for c in CASES if c.dtype == "float32" and not c.name.startswith("long/deep")]
Load = Callable[..., Reference]
Inputs = Callable[[str], dict[str, Array]]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", FLOAT32)
def test_recording_leaves_the_results_bits_unchanged(
    reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str
) -> None:
    given, steps = inputs_of(name), case(name).steps
    plain: dict[int, torch.Tensor] = {}
    final = "logits" if steps else "encoder.norm"
    run_reference(
        reference_of(name, attention="eager"),
        given,
        steps,
        lambda step, _name, value: plain.__setitem__(step, value),
        lambda tap: tap == final,
    )
    taps = taps_of(reference_of(name), given, steps)
    assert len(plain) == max(1, len(steps))
    for step, value in plain.items():
        assert torch.equal(taps[final, step], value)


@pytest.mark.parametrize("name", ENCODER_DECODER)
def test_every_tap_has_a_place_in_the_table_and_its_axes(
    reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str
) -> None:
    taps = taps_of(reference_of(name), inputs_of(name), case(name).steps)
    for (tap, _), value in taps.items():
        found = place(tap, 3)
        assert found is not None and len(found.axes) == value.ndim, tap


def test_the_merged_decoder_shows_every_place(reference_of: Load, inputs_of: Inputs, taps_of: Any) -> None:
    from qwen3_golden import table

    taps = taps_of(reference_of("encdec/ragged"), inputs_of("encdec/ragged"), case("encdec/ragged").steps)
    seen = {pattern_of(tap) for tap, _ in taps}
    rows = {row.pattern for row in table() if row.op != "input"}
    missing = {one for one in rows if one.startswith(("encoder.", "decoder.", "logits", "generated_ids"))} - seen
    assert missing == {"generated_ids"}


def test_nothing_of_the_encoders_half_is_computed_after_step_0(
    reference_of: Load, inputs_of: Inputs, taps_of: Any
) -> None:
    taps = taps_of(reference_of("encdec/ragged"), inputs_of("encdec/ragged"), case("encdec/ragged").steps)
    assert {step for tap, step in taps if "encoder_k_proj" in tap or tap == "decoder.encoder_cos"} == {0}
    assert {step for tap, step in taps if "cache_encoder_keys" in tap} == {0, 1, 2, 3, 4}


def test_unrotated_keys_have_no_tables_and_are_cached_as_they_are(
    reference_of: Load, inputs_of: Inputs, taps_of: Any
) -> None:
    name = "encdec/unrotated"
    taps = taps_of(reference_of(name), inputs_of(name), case(name).steps)
    site = "decoder.layers.1.merged_attn."
    assert not any("encoder_cos" in tap or "encoder_k_rope" in tap for tap, _ in taps)
    normed = taps[f"{site}encoder_k_norm", 0].transpose(1, 2)
    assert torch.equal(taps[f"{site}cache_encoder_keys", 2], normed)


def test_a_cache_is_the_keys_of_all_steps_in_order(reference_of: Load, inputs_of: Inputs, taps_of: Any) -> None:
    name = "encdec/window"
    taps = taps_of(reference_of(name), inputs_of(name), case(name).steps)
    site = "decoder.layers.2.merged_attn."
    keys = torch.cat([taps[f"{site}k_rope", step] for step in range(5)], dim=2)
    assert torch.equal(taps[f"{site}cache_keys", 4], keys)


def test_only_wanted_taps_are_recorded(reference_of: Load, inputs_of: Inputs) -> None:
    seen = []
    name = "encoder/one_token"
    wanted = {"encoder.norm", "encoder.layers.1.self_attn.scores"}
    encoder = reference_of(name).encoder
    run_encoder(encoder, inputs_of(name), lambda tap, _: seen.append(tap), wanted.__contains__)
    assert sorted(seen) == sorted(wanted)


def test_no_hook_stays_behind(reference_of: Load, inputs_of: Inputs, taps_of: Any) -> None:
    name = "encdec/ragged"
    reference = reference_of(name)
    taps_of(reference, inputs_of(name), case(name).steps)
    modules = [*reference.encoder.modules(), *reference.decoder.modules()]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    assert not SITES


def test_a_softmax_that_does_not_follow_from_its_scores_is_a_harness_bug_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.qwen3.modeling_qwen3 import eager_attention_forward

    def capped(module: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        return eager_attention_forward(module, query * 1.0000005, *args, **kwargs)

    recording_attention("capped", capped)
    monkeypatch.setitem(RECORDING, "qwen3", "capped")
    with pytest.raises(ParityError, match=r"probs: the recorded probabilities") as caught:
        record(case("encoder/ragged"), GOLDEN_ROOT / "checkpoints", tmp_path / "c.pb")
    assert caught.value.fault == "harness bug"
    assert not list(tmp_path.iterdir())


def test_fused_attention_shows_no_scores_and_no_probs(
    reference_of: Load, inputs_of: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    recording_attention("recorded_sdpa", ALL_ATTENTION_FUNCTIONS["sdpa"], materialise=False)
    name = "encoder/ragged"
    encoder = reference_of(name).encoder
    seen = []
    monkeypatch.setattr(encoder.config, "_attn_implementation", "recorded_sdpa")
    run_encoder(encoder, inputs_of(name), lambda tap, _: seen.append(tap.rpartition(".")[2]), lambda _: True)
    assert {"q_rope", "mask", "context"} <= set(seen)
    assert not {"scores", "probs"} & set(seen)


def test_masks_are_read_as_visible_or_not() -> None:
    query, key = torch.zeros(2, 6, 1, 10), torch.zeros(2, 2, 3, 10)
    lowest = torch.finfo(torch.float32).min
    for hidden in (lowest, -torch.inf, -1e9, -1.0):
        mask = torch.tensor([0.0, hidden, 0.0]).expand(1, 1, 1, 3)
        assert visible(mask, query, key).tolist() == [[[True, False, True]]] * 2
    assert visible(mask == 0, query, key).tolist() == [[[True, False, True]]] * 2
    assert visible(None, query, key).all()


def test_an_embedding_shared_by_two_stacks_is_recorded_for_the_one_that_runs(
    reference_of: Load, inputs_of: Inputs
) -> None:
    reference = reference_of("encdec/ragged")
    shared = reference.encoder.embed_tokens
    original = reference.decoder.model.embed_tokens
    reference.decoder.model.embed_tokens = shared
    seen: list[str] = []
    try:
        other = attach(
            reference.decoder.model,
            "decoder",
            lambda tap, _: seen.append(tap),
        )
        with other:
            run_encoder(
                reference.encoder,
                inputs_of("encdec/ragged"),
                lambda tap, _: seen.append(tap),
                lambda tap: tap.endswith("embed_tokens"),
            )
    finally:
        reference.decoder.model.embed_tokens = original
    assert seen == ["encoder.embed_tokens"]


def test_each_architecture_records_its_own_eager_attention() -> None:
    assert len(set(RECORDING.values())) == len(FAMILIES)
