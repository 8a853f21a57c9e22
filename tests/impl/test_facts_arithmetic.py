"""The contract's easily mistaken facts about arithmetic: each holds, and goes red when its trap is sprung."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers.models.qwen3 import modeling_qwen3 as hf_qwen3

from qwen3_encdec import Qwen3RMSNorm, Qwen3RotaryEmbedding, attention, load_qwen3, merged_attention, rope
from qwen3_encdec.norm import Qwen3RMSNorm as Norm

Check = Callable[[], None]


def _red(check: Check) -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        check()


@pytest.fixture
def same_as_hf(save_hf: Any, ids: Any) -> Callable[..., Check]:
    """A check that the causal logits of the loaded model are HF's."""

    def make(**overrides: Any) -> Check:
        hf, directory = save_hf(**overrides)

        def check() -> None:
            model = load_qwen3(directory)
            model.set_attn_implementation("eager")
            with torch.no_grad():
                actual = model.lm_head(model.decoder(ids(2, 7), torch.zeros(2, 0, 40)).last_hidden_state)
                torch.testing.assert_close(actual, hf(ids(2, 7)).logits, rtol=1e-4, atol=1e-4)

        return check

    return make


def test_fact_1_attention_output_is_heads_times_head_dim_wide(make_config: Any, monkeypatch: Any) -> None:
    def check() -> None:
        module = attention.ProjectedAttention(make_config())
        assert tuple(module.o_proj.weight.shape) == (40, 60)
        assert tuple(module.q_proj.weight.shape) == (60, 40)

    check()
    head_dim = property(lambda config: config.hidden_size // config.num_attention_heads, lambda config, value: None)
    monkeypatch.setattr(type(make_config()), "head_dim", head_dim)
    _red(check)


def test_fact_2_qk_norm_comes_before_rope_with_a_weight_each(
    same_as_hf: Callable[..., Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = same_as_hf()
    check()
    with monkeypatch.context() as patch:  # after the rotation
        plain = attention.ProjectedAttention._split_heads
        attend = attention.ProjectedAttention.attend

        def late(self: Any, queries: Any, keys: Any, *rest: Any) -> Any:
            return attend(self, self.q_norm(queries), self.k_norm(keys), *rest)

        patch.setattr(
            attention.ProjectedAttention,
            "query_heads",
            lambda self, x: plain(self, x).transpose(1, 2),
        )
        patch.setattr(attention.ProjectedAttention, "key_heads", lambda self, x: plain(self, x).transpose(1, 2))
        patch.setattr(attention.ProjectedAttention, "attend", late)
        _red(check)
    with monkeypatch.context() as patch:  # one weight for both
        patch.setattr(
            attention.ProjectedAttention,
            "key_heads",
            lambda self, x: self.q_norm(self._split_heads(x)).transpose(1, 2),
        )
        _red(check)


def test_fact_3_theta_comes_from_the_config(same_as_hf: Callable[..., Check], monkeypatch: Any) -> None:
    check = same_as_hf(rope_parameters={"rope_type": "default", "rope_theta": 5e6})
    check()
    frequencies = rope.inverse_frequencies
    monkeypatch.setattr(rope, "inverse_frequencies", lambda dim, base, *rest: frequencies(dim, 1e4, *rest))
    _red(check)


@pytest.mark.parametrize("rotate", [True, False])
def test_fact_8_encoder_keys_are_rotated_at_the_encoders_own_positions_or_not_at_all(
    make_model: Any, monkeypatch: Any, rotate: bool
) -> None:
    module = make_model(rotate_encoder_keys=rotate).decoder.layers[0].merged_attn
    torch.manual_seed(0)
    memory, own = torch.randn(1, 4, 40), torch.randn(1, 3, 40)
    positions = torch.tensor([[2, 3, 5, 9]])
    seen: list[torch.Tensor] = []
    attend = attention.ProjectedAttention.attend

    def spy(self: Any, queries: Any, keys: Any, *rest: Any) -> Any:
        seen.append(keys)
        return attend(self, queries, keys, *rest)

    monkeypatch.setattr(attention.ProjectedAttention, "attend", spy)

    def check() -> None:
        seen.clear()
        with torch.no_grad():
            module(own, memory, encoder_position_ids=positions)
            expected = module.key_heads(module.k_proj(memory))
            if rotate:
                cos, sin = Qwen3RotaryEmbedding(10, base=50_000.0)(memory, positions)
                expected = hf_qwen3.apply_rotary_pos_emb(expected, expected, cos, sin)[1]
        torch.testing.assert_close(seen[0][:, :, 3:], expected, rtol=1e-6, atol=1e-6)

    check()
    if rotate:
        monkeypatch.setattr(merged_attention, "apply_rotary", lambda x, cos, sin: x)
    else:
        module.config.rotate_encoder_keys = True
    _red(check)


def test_fact_9_norm_rope_and_softmax_are_float32_even_in_a_double_model(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 12, dtype=torch.float64)

    def check() -> None:
        ours, theirs = Qwen3RMSNorm(12).double(), hf_qwen3.Qwen3RMSNorm(12).double()
        torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)
        truth = x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
        assert not torch.allclose(ours(x), truth, rtol=1e-12, atol=0)

    check()
    module = torch.nn.Module()
    module.num_key_value_groups = 1
    q, k, v = (torch.randn(1, 1, 4, 6, dtype=torch.float64) for _ in range(3))
    actual, _ = attention.eager_attention_forward(module, q, k, v, None, scaling=1.0)
    expected, _ = hf_qwen3.eager_attention_forward(module, q, k, v, None, scaling=1.0)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    cos, _ = Qwen3RotaryEmbedding(6).double()(x, torch.arange(3)[None])
    torch.testing.assert_close(cos, cos.float().double(), rtol=0, atol=0)

    def wide(self: Norm, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(Norm, "forward", wide)
    _red(check)


def test_fact_10_far_angles_are_the_references_float32_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = torch.tensor([[0, 4096, 32768]])

    def check() -> None:
        cos, _ = Qwen3RotaryEmbedding(128, base=1e6)(torch.zeros(1), positions)
        frequencies = 1.0 / (1e6 ** (torch.arange(0, 128, 2, dtype=torch.float) / 128))
        expected = (positions[..., None].float() * frequencies).cos()
        torch.testing.assert_close(cos[..., :64], expected, rtol=0, atol=0)
        exact = 1e6 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
        assert (cos[..., :64] - (positions[..., None] * exact).cos()).abs().max() > 1e-4

    check()

    def exact_tables(inv_freq: Any, position_ids: Any, dtype: Any, attention_factor: float) -> Any:
        exact = 1e6 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
        angles = (position_ids[..., None] * exact).repeat(1, 1, 2)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    monkeypatch.setattr(rope, "rotary_tables", exact_tables)
    _red(check)


def test_fact_11_qwen2_has_qkv_biases_and_no_qk_norm(same_as_hf: Callable[..., Check], monkeypatch: Any) -> None:
    check = same_as_hf(family="qwen2")
    check()
    split = attention.ProjectedAttention._split_heads

    def forgetful(self: Any, x: torch.Tensor) -> Any:
        bias = self.v_proj.bias if x.shape[-1] == self.v_proj.out_features else self.q_proj.bias
        return split(self, x - bias)

    monkeypatch.setattr(attention.ProjectedAttention, "_split_heads", forgetful)
    _red(check)


def test_fact_11_qwen3_bias_also_covers_o_proj(same_as_hf: Callable[..., Check]) -> None:
    same_as_hf(attention_bias=True)()


def test_fact_16_last_hidden_state_entry_is_after_the_final_norm(make_model: Any, ids: Any) -> None:
    model = make_model()

    def check() -> None:
        for stack, inputs in ((model.encoder, ()), (model.decoder, (torch.ones(2, 2, 40),))):
            outputs: list[torch.Tensor] = []
            handle = stack.layers[-1].register_forward_hook(lambda *call, sink=outputs: sink.append(call[2][0]))
            result = stack(ids(2, 5), *inputs, output_hidden_states=True)
            handle.remove()
            assert len(result.hidden_states) == 4
            assert result.hidden_states[-1] is result.last_hidden_state
            assert not torch.allclose(result.hidden_states[-1], outputs[0])

    check()
    model.encoder.norm = torch.nn.Identity()
    _red(check)
