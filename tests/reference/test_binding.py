"""One recorder for a model of any names: the same taps, in the same order, bit for bit."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb, eager_attention_forward

from qwen3_golden import Array, ParityError
from qwen3_reference.binding import SITES, attach, emit
from qwen3_reference.capture.models import Reference
from qwen3_reference.capture.recorded_attention import eager_scores
from qwen3_reference.capture.run import as_tensor, run_encoder
from qwen3_reference.capture.softmax_check import additive
from qwen3_reference.torch_tensors import visible

CASE = "encoder/ragged"
NAMES = {
    "embed_tokens": "wte",
    "rotary_emb": "angles",
    "norm": "ln_f",
    "layers": "h",
    "layers.{layer}.input_layernorm": "h.{layer}.ln_1",
    "layers.{layer}.self_attn": "h.{layer}.mixer",
    "layers.{layer}.self_attn.q_proj": "h.{layer}.mixer.query",
    "layers.{layer}.post_attention_layernorm": "h.{layer}.ln_2",
    "layers.{layer}.mlp.down_proj": "h.{layer}.ffn.out",
    "layers.{layer}.mlp": "h.{layer}.ffn",
}


class Mixer(nn.Module):
    """Somebody's attention with Hugging Face's parts."""

    def __init__(self, own: Any) -> None:
        super().__init__()
        self.query, self.k_proj, self.v_proj, self.o_proj = own.q_proj, own.k_proj, own.v_proj, own.o_proj
        self.q_norm, self.k_norm = own.q_norm, own.k_norm
        self.num_key_value_groups, self.width = own.num_key_value_groups, own.head_dim

    def forward(self, x: torch.Tensor, tables: Any, mask: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:2], -1, self.width)
        q = self.q_norm(self.query(x).view(shape)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, *tables)
        for name, value in (("query", q), ("key", k), ("mask", visible(mask, q, k))):
            emit(self, name, value)
        emit(self, "scores", eager_scores(q, k, self.width**-0.5))
        context, probs = eager_attention_forward(self, q, k, v, mask, self.width**-0.5)
        emit(self, "probs", probs)
        emit(self, "context", context)
        result: torch.Tensor = self.o_proj(context.reshape(*x.shape[:2], -1))
        return result


class Ffn(nn.Module):
    def __init__(self, own: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.out = own.gate_proj, own.up_proj, own.down_proj

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return result


class Block(nn.Module):
    def __init__(self, own: Any) -> None:
        super().__init__()
        self.ln_1, self.mixer = own.input_layernorm, Mixer(own.self_attn)
        self.ln_2, self.ffn = own.post_attention_layernorm, Ffn(own.mlp)

    def forward(self, stream: torch.Tensor, tables: Any, mask: torch.Tensor) -> torch.Tensor:
        stream = stream + self.mixer(self.ln_1(stream), tables, mask)
        result: torch.Tensor = stream + self.ffn(self.ln_2(stream))
        return result


class Somebodys(nn.Module):
    """Hugging Face's encoder under other names; a block is given its stream by name."""

    def __init__(self, own: Any) -> None:
        super().__init__()
        self.wte, self.angles, self.ln_f = own.embed_tokens, own.rotary_emb, own.norm
        self.h = nn.ModuleList(Block(layer) for layer in own.layers)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids)
        tables = self.angles(x, positions)
        mask = additive(real[:, None, None].expand(-1, 1, ids.shape[1], -1), x.dtype)
        for block in self.h:
            x = block(tables=tables, mask=mask, stream=x)
        result: torch.Tensor = self.ln_f(x)
        return result


@pytest.fixture(scope="module")
def encoder(reference_of: Callable[..., Reference]) -> Any:
    return reference_of(CASE).encoder


@pytest.fixture(scope="module")
def given(inputs_of: Callable[[str], dict[str, Array]]) -> Iterator[dict[str, Array]]:
    yield inputs_of(CASE)


def run(model: nn.Module, given: dict[str, Array]) -> None:
    ids, positions, real = (as_tensor(given, f"encoder_{n}") for n in ("input_ids", "position_ids", "attention_mask"))
    with torch.no_grad():
        model(ids, positions, real)


def test_a_model_of_other_names_shows_the_same_taps_in_the_same_order(encoder: Any, given: dict[str, Array]) -> None:
    theirs: list[tuple[str, torch.Tensor]] = []
    ours: list[tuple[str, torch.Tensor]] = []
    run_encoder(encoder, given, lambda *tap: theirs.append(tap), lambda _: True)
    model = Somebodys(encoder)
    names = NAMES | {"layers.{layer}": "h.{layer}"}
    with attach(model, "encoder", lambda *tap: ours.append(tap), modules=names):
        run(model, given)
    order = [name for name, _ in theirs]
    assert [name for name, _ in ours] == order and len(order) == 69
    for (name, expected), (_, actual) in zip(theirs, ours, strict=True):
        assert torch.equal(actual, expected), name


def test_nothing_stays_behind_when_the_model_fails(encoder: Any, given: dict[str, Array]) -> None:
    model = Somebodys(encoder)
    with pytest.raises(RuntimeError), attach(model, "encoder", lambda *_: None, modules=NAMES):
        model(torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 2) == 1)
    assert not SITES
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_only_wanted_taps_have_hooks(encoder: Any, given: dict[str, Array]) -> None:
    model, seen = Somebodys(encoder), []
    wanted = {"encoder.layers.1.mlp.act", "encoder.layers.0.self_attn.scores"}
    with attach(model, "encoder", lambda name, _: seen.append(name), modules=NAMES, records=wanted.__contains__):
        assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.h.modules()) == 1
        run(model, given)
    assert seen == ["encoder.layers.0.self_attn.scores", "encoder.layers.1.mlp.act"]


@pytest.mark.parametrize(
    ("path", "theirs", "rule"),
    [
        ("layers.{layer}.self_attn.q_proj", "h.{layer}.mixer.qeury", "the model has no such module"),
        ("layers.{layer}.self_atn", "h.{layer}.mixer", "the network has no module below this path"),
        ("layers.{layer}.mlp", "ln_f", "the network has no module below this path"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(encoder: Any, path: str, theirs: str, rule: str) -> None:
    with (
        pytest.raises(ParityError, match=rule) as caught,
        attach(Somebodys(encoder), "encoder", lambda *_: None, modules=NAMES | {path: theirs}),
    ):
        raise AssertionError("it was taken")
    assert path in str(caught.value) and theirs in str(caught.value)
