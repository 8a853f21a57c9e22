"""A torch model of any names is recorded in three lines, and what it computes is judged.

It runs `recording.hugging_face`, `recording.layout`, `recording.slots`, too.
"""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from plain_qwen3 import PlainQwen3
from torch import nn
from torch.nn import functional as F  # noqa: N812
from transformers import AutoModelForCausalLM, PreTrainedModel, StaticCache

import qwen3_parity
from qwen3_golden import ParityError, Recording, pb, read
from qwen3_parity import Case
from qwen3_parity.recording.left_out import LeftOut
from qwen3_reference.binding import SITES
from qwen3_reference.caches import CACHE

PLAIN = {
    "wte": "embed_tokens",
    "blocks.{layer}:input": "layers.{layer}.input",
    "blocks.{layer}.n1": "input_layernorm",
    "blocks.{layer}.mix.wqkv": ["q_proj", "k_proj", "v_proj"],
    "blocks.{layer}.mix.qn": "q_norm",
    "blocks.{layer}.mix.kn": "k_norm",
    "blocks.{layer}.mix.wo": "o_proj",
    "blocks.{layer}.n2:input": "attn_residual",
    "blocks.{layer}.n2": "post_attention_layernorm",
    "blocks.{layer}.ffn.w13": ["gate_proj", "up_proj"],
    "blocks.{layer}.ffn.w2:input": "act",
    "blocks.{layer}.ffn.w2": "down_proj",
    "blocks.{layer}": "output",
    "ln_f": "norm",
}
UNSEEN = {"position_ids", "inv_freq", "cos", "sin", "scores", "probs"}
"""What functions without a module, and a fused attention, keep for themselves."""


@pytest.fixture(scope="module")
def case() -> Case:
    return qwen3_parity.golden("decoder/plain")


@pytest.fixture(scope="module")
def hugging_face(case: Case) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        case.checkpoint, attn_implementation="sdpa", dtype=torch.float32
    )
    return model.eval().requires_grad_(False)


def shown(recording: Recording) -> set[str]:
    return {pattern.rpartition(".")[2] for pattern in recording.run.materialised}


def test_hugging_faces_model_is_recorded_by_its_own_names(
    case: Case, hugging_face: PreTrainedModel, tmp_path: Path
) -> None:
    with qwen3_parity.record(hugging_face, case, path=tmp_path / "hf.pb") as recording:
        hugging_face(**case.inputs)
    found = qwen3_parity.diagnose(case.name, recording)
    assert found.verdicts.word == "parity" and not found.faults
    assert {"q_rope", "k_rope", "cache_keys", "mask", "context", "cos", "logits"} <= shown(read(recording.path))


def test_a_cache_gives_the_same_steps(case: Case, hugging_face: PreTrainedModel, tmp_path: Path) -> None:
    cache = None
    with qwen3_parity.record(hugging_face, case, path=tmp_path / "steps.pb") as recording:
        for inputs in case.steps:
            cache = hugging_face(**inputs, **{CACHE: cache}, use_cache=True)[CACHE]
    verdicts = qwen3_parity.check(case, recording)
    assert (verdicts.word, verdicts.compared) == ("parity", 350)


@pytest.mark.parametrize("name", ["ragged_decode", "plain_two_rows", "inputs_embeds", "window_even", "window_chunks"])
def test_hugging_faces_model_with_its_cache_is_recorded_whole(name: str, tmp_path: Path) -> None:
    """A step's query heads are handed over as positions where there is padding; a window's cache drops slots."""
    case, cache = qwen3_parity.golden(f"decoder/{name}"), None
    model = AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype=torch.float32)
    with qwen3_parity.record(model, case, path=tmp_path / "steps.pb") as recording, torch.no_grad():
        for inputs in case.steps:
            cache = model(**inputs, **{CACHE: cache}, use_cache=True)[CACHE]
    verdicts = qwen3_parity.check(case, recording)
    assert verdicts.word == "parity" and not recording.left_out
    assert {"q_rope", "k_rope", "cache_keys", "cache_values", "mask", "context"} <= shown(read(recording.path))


def test_a_cache_of_fixed_length_is_recorded_up_to_its_last_slot_in_use(tmp_path: Path) -> None:
    case = qwen3_parity.golden("decoder/ragged_decode")
    model = AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype=torch.float32)
    cache = StaticCache(config=model.config, max_cache_len=sum(case.lengths) + 5)
    with qwen3_parity.record(model, case, path=tmp_path / "steps.pb") as recording, torch.no_grad():
        for inputs in case.steps:
            model(**inputs, **{CACHE: cache}, use_cache=True)
    assert qwen3_parity.check(case, recording).word == "parity" and "cache_keys" in shown(read(recording.path))


class Padded(nn.Module):
    """A model whose attention hands over heads that are wider than they are, in the calls that `where` chooses."""

    def __init__(self, model: PlainQwen3, where: Callable[[int], bool]) -> None:
        super().__init__()
        self.model, self.where, self.calls = model, where, 0

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        attend = F.scaled_dot_product_attention

        def wide(*qkv: torch.Tensor, **options: bool) -> torch.Tensor:
            self.calls += 1
            if not self.where(self.calls - 1):
                return attend(*qkv, **options)
            width = qkv[0].shape[-1]
            padded = (F.pad(one, (0, 6)) for one in qkv)
            return attend(*padded, **options, scale=width**-0.5)[..., :width]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(F, "scaled_dot_product_attention", wide)
            return self.model(tokens)


INNER = {f"model.{path}": taps for path, taps in PLAIN.items()}


def test_attention_in_a_layout_of_its_own_is_left_out_in_words(case: Case, tmp_path: Path) -> None:
    model = Padded(PlainQwen3(case.checkpoint), lambda _: True)
    with (
        pytest.warns(LeftOut, match=r"q_rope, so this tap is left out\n  expected: .* = \[1, 6, 9, 10\]"),
        qwen3_parity.record(model, case, INNER, tmp_path / "wide.pb") as recording,
    ):
        model(case.inputs["input_ids"])
    assert {one.rpartition(".")[2] for one in recording.left_out} == {
        "q_rope", "k_rope", "cache_keys", "cache_values", "context"
    }  # fmt: skip
    assert qwen3_parity.check(case, recording).word == "parity" and "q_rope" not in shown(read(recording.path))


def test_attention_that_some_layers_alone_show_is_refused_in_words(case: Case, tmp_path: Path) -> None:
    model = Padded(PlainQwen3(case.checkpoint), lambda call: call == 1)
    with (
        pytest.raises(ParityError, match=r"call 2 of forward 1: .* in some forwards and layers") as caught,
        qwen3_parity.record(model, case, INNER, tmp_path / "some.pb"),
    ):
        model(case.inputs["input_ids"])
    assert "[1, 2, 9, 16]" in caught.value.got and not (tmp_path / "some.pb").exists()


def test_a_model_without_a_cache_may_run_its_row_again_at_each_step(case: Case, tmp_path: Path) -> None:
    model, stop = PlainQwen3(case.checkpoint), 0
    with qwen3_parity.record(model, case, PLAIN, tmp_path / "again.pb") as recording:
        for length in case.lengths:
            stop += length
            model(case.inputs["input_ids"][:, :stop])
    verdicts = qwen3_parity.check(case, recording)
    assert (verdicts.word, verdicts.compared) == ("parity", 330)


@pytest.mark.parametrize("name", ["decoder/plain", "decoder/plain_two_rows"])
def test_own_names_fused_products_and_positions_first_are_read_as_taps(name: str, tmp_path: Path) -> None:
    case = qwen3_parity.golden(name)
    model = PlainQwen3(case.checkpoint)
    with qwen3_parity.record(model, case, PLAIN, tmp_path / "plain.pb") as recording:
        model(case.inputs["input_ids"])
    assert qwen3_parity.check(case, recording).word == "parity"
    recorded = read(recording.path)
    assert shown(case.golden) - shown(recorded) == UNSEEN
    assert recorded.run.backend == pb.SDPA


def test_as_many_rows_as_kv_heads_leave_nothing_open(tmp_path: Path) -> None:
    case = qwen3_parity.golden("decoder/window_even")
    assert len(case.arrays["input_ids"]) == case.golden.case.config.num_key_value_heads
    hugging_face = AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype=torch.float32)
    names = {"model.layers.{layer}.self_attn.k_norm": "k_norm", "model.layers.{layer}.self_attn.v_proj": "v_proj"}
    with qwen3_parity.record(hugging_face, case, names, tmp_path / "rows.pb") as recording, torch.no_grad():
        hugging_face(**case.inputs)
    assert qwen3_parity.check(case, recording).word == "parity"


def test_a_map_says_all_that_is_hooked(case: Case, hugging_face: PreTrainedModel, tmp_path: Path) -> None:
    names = {"model.layers.{layer}.mlp.down_proj": "down_proj"}
    with qwen3_parity.record(hugging_face, case, names, tmp_path / "map.pb") as recording:
        hugging_face(**case.inputs)
    assert {"down_proj", "logits"} <= shown(read(recording.path))
    assert not {"output", "input_layernorm", "q_proj"} & shown(read(recording.path))


def test_a_map_that_leaves_a_module_out_leaves_the_others(
    case: Case, hugging_face: PreTrainedModel, tmp_path: Path
) -> None:
    with qwen3_parity.record(hugging_face, case, {"model.layers.{layer}": ""}, tmp_path / "map.pb") as recording:
        hugging_face(**case.inputs)
    assert "output" not in shown(read(recording.path))
    assert {"input", "down_proj", "q_proj", "logits"} <= shown(read(recording.path))


def test_as_many_positions_as_heads_are_open_where_heads_stand_apart_alone(tmp_path: Path) -> None:
    """q_proj has six positions of sixty channels; nobody has six heads of sixty positions and channels."""
    case, cache = qwen3_parity.golden("decoder/mask_4d"), None
    model = AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype=torch.float32)
    q_norm = {"model.layers.{layer}.self_attn.q_norm": {"tap": "q_norm", "axes": "batch query heads head_dim"}}
    with qwen3_parity.record(model, case, q_norm, tmp_path / "steps.pb") as recording, torch.no_grad():
        for inputs in case.steps:
            cache = model(**inputs, **{CACHE: cache}, use_cache=True)[CACHE]
    assert qwen3_parity.check(case, recording).word == "parity"


def test_a_head_is_enough_of_a_name_map(case: Case, tmp_path: Path) -> None:
    model = nn.Sequential(OrderedDict(all=PlainQwen3(case.checkpoint)))
    with qwen3_parity.record(model, case, {"all": "logits"}, tmp_path / "head.pb") as recording:
        model(case.inputs["input_ids"])
    assert "logits" in shown(read(recording.path))


def test_a_rotation_of_neighbours_is_named(case: Case, tmp_path: Path) -> None:
    model = PlainQwen3(case.checkpoint, interleaved=True)
    with qwen3_parity.record(model, case, PLAIN, tmp_path / "interleaved.pb") as recording:
        model(case.inputs["input_ids"])
    faults = qwen3_parity.diagnose(case, recording).faults
    assert {fault.name for fault in faults} == {"rope.interleaved"}
    assert {fault.fault.place.rpartition(".")[2] for fault in faults} == {"q_rope", "k_rope"}


def test_an_encoder_is_recorded_likewise(tmp_path: Path) -> None:
    case = qwen3_parity.golden("encoder/ragged")
    model = AutoModelForCausalLM.from_pretrained(case.checkpoint, attn_implementation="sdpa", dtype=torch.float32)
    model.config.is_causal = False
    with torch.no_grad(), qwen3_parity.record(model.model, case, path=tmp_path / "encoder.pb") as recording:
        model.model(**case.inputs)
    assert qwen3_parity.check(case, recording).word == "parity"


def tiled(model: PlainQwen3) -> Callable[..., torch.Tensor]:
    """Attention of which query head h reads KV head h modulo their number."""
    attend = F.scaled_dot_product_attention

    def wrong(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: bool) -> torch.Tensor:
        groups = model.blocks[0].mix.h // model.blocks[0].mix.kv
        return attend(q, *(one[:, ::groups].repeat(1, groups, 1, 1) for one in (k, v)), **options)

    return wrong


def test_wrongly_repeated_keys_are_no_wrong_keys(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = PlainQwen3(case.checkpoint)
    with qwen3_parity.record(model, case, PLAIN, tmp_path / "tiled.pb") as recording:
        monkeypatch.setattr(F, "scaled_dot_product_attention", tiled(model))
        model(case.inputs["input_ids"])
    (fault,) = qwen3_parity.diagnose(case, recording).faults
    assert fault.fault.place.endswith("context") and fault.name is not None and "head" in fault.fault.place + fault.name


def test_nothing_of_the_recorder_stays_in_the_model(case: Case, tmp_path: Path) -> None:
    model = PlainQwen3(case.checkpoint)
    before = [dict(one._forward_hooks) | dict(one._forward_pre_hooks) for one in model.modules()]
    with pytest.raises(KeyError), qwen3_parity.record(model, case, PLAIN, tmp_path / "hooks.pb"):
        raise KeyError
    assert [dict(one._forward_hooks) | dict(one._forward_pre_hooks) for one in model.modules()] == before
    assert not SITES and not (tmp_path / "hooks.pb").exists()


def test_sums_in_place_change_nothing_that_was_recorded(case: Case, tmp_path: Path) -> None:
    model = PlainQwen3(case.checkpoint)  # its block adds to the residual in place
    with qwen3_parity.record(model, case, PLAIN, tmp_path / "place.pb") as recording:
        model(case.inputs["input_ids"])
    made = read(recording.path)
    residual, output = (made["decoder.layers.0." + one, 0].array for one in ("attn_residual", "output"))
    assert (residual != output).any()
