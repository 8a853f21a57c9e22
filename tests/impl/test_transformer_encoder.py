"""The classic encoder against torch's own layer and Hugging Face's BERT, and what it refuses."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from qwen3_encdec.transformer_encoder import (
    MultiHeadSelfAttention,
    PositionWiseFeedForward,
    TransformerEncoder,
    TransformerEncoderBlock,
)

WIDTH, HEADS, INNER = 24, 4, 56
PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3, [True] * 2 + [False] * 5])
REAL = ~PADDING


def loud(module: nn.Module, seed: int = 0) -> Any:
    """Weights that nothing hides behind: norms away from 1, biases away from 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.4 * noise if "orm" in name and "weight" in name else 0.5 * noise)
    return module.eval()


def block_of(reference: nn.TransformerEncoderLayer, **options: Any) -> TransformerEncoderBlock:
    """Our block with the weights of torch's layer."""
    block = TransformerEncoderBlock(WIDTH, HEADS, INNER, **options)
    names = {
        "self_attn.in_proj_weight": "self_attn.qkv_proj.weight",
        "self_attn.in_proj_bias": "self_attn.qkv_proj.bias",
        **{f"linear{i}.{part}": f"feed_forward.linear{i}.{part}" for i in (1, 2) for part in ("weight", "bias")},
    }
    block.load_state_dict({names.get(name, name): value for name, value in reference.state_dict().items()})
    return block.eval()


def drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("mask", [None, PADDING], ids=["unpadded", "padded"])
def test_a_block_is_torchs_layer(pre_norm: bool, activation: str, mask: torch.Tensor | None) -> None:
    reference = loud(
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, dropout=0.0, activation=activation, norm_first=pre_norm, batch_first=True
        )
    )
    x = drawn(3, 7, WIDTH)
    block = block_of(reference, dropout=0.0, activation=activation, pre_norm=pre_norm)
    with torch.enable_grad():  # its fast path rounds otherwise and empties padded rows
        expected = reference(x, src_key_padding_mask=mask)
    actual, weights = block(x, mask)
    assert weights is None
    torch.testing.assert_close(actual[REAL], expected[REAL], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", [None, PADDING], ids=["unpadded", "padded"])
def test_a_post_norm_block_is_berts_layer(mask: torch.Tensor | None) -> None:
    config = BertConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    bert = loud(BertLayer(config))
    block = TransformerEncoderBlock(WIDTH, HEADS, INNER, pre_norm=False, layer_norm_eps=config.layer_norm_eps).eval()
    own, state = bert.attention.self, {}
    for part in ("weight", "bias"):
        state[f"self_attn.qkv_proj.{part}"] = torch.cat([getattr(one, part) for one in (own.query, own.key, own.value)])
        for ours, theirs in (
            ("self_attn.out_proj", bert.attention.output.dense),
            ("norm1", bert.attention.output.LayerNorm),
            ("feed_forward.linear1", bert.intermediate.dense),
            ("feed_forward.linear2", bert.output.dense),
            ("norm2", bert.output.LayerNorm),
        ):
            state[f"{ours}.{part}"] = getattr(theirs, part)
    block.load_state_dict(state)
    x = drawn(3, 7, WIDTH)
    added = None if mask is None else mask[:, None, None] * torch.finfo(torch.float32).min
    expected = bert(x, attention_mask=added)
    expected = expected[0] if isinstance(expected, tuple) else expected
    torch.testing.assert_close(block(x, mask)[0][REAL], expected[REAL], rtol=1e-5, atol=1e-5)


def test_weights_are_torchs_attention_weights_head_by_head() -> None:
    attention = loud(MultiHeadSelfAttention(WIDTH, HEADS, dropout=0.0))
    reference = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    with torch.no_grad():
        reference.in_proj_weight.copy_(attention.qkv_proj.weight)
        reference.in_proj_bias.copy_(attention.qkv_proj.bias)
        reference.out_proj.load_state_dict(attention.out_proj.state_dict())
    x = drawn(3, 7, WIDTH)
    expected, weights = reference(x, x, x, key_padding_mask=PADDING, average_attn_weights=False)
    actual, mine = attention(x, PADDING, return_attention=True)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mine, weights, rtol=1e-5, atol=1e-6)
    assert not mine.masked_select(PADDING[:, None, None].expand_as(mine)).any()


def test_an_attention_without_bias_has_none() -> None:
    attention = MultiHeadSelfAttention(WIDTH, HEADS, bias=False)
    assert [name for name, _ in attention.named_parameters()] == ["qkv_proj.weight", "out_proj.weight"]


@pytest.mark.parametrize("pre_norm", [True, False])
def test_the_stack_is_its_parts(pre_norm: bool) -> None:
    model = loud(
        TransformerEncoder(50, WIDTH, HEADS, num_layers=3, d_ff=INNER, max_len=9, dropout=0.0, pre_norm=pre_norm)
    )
    ids = torch.randint(0, 50, (3, 7), generator=torch.Generator().manual_seed(2))
    x = model.embed_tokens.weight[ids] * WIDTH**0.5 + model.embed_positions.weight[:7]
    states = [x]
    for layer in model.layers:
        x, _ = layer(x, PADDING)
        states.append(x)
    assert (model.norm is not None) is pre_norm
    if pre_norm:
        states[-1] = nn.functional.layer_norm(x, (WIDTH,), model.norm.weight, model.norm.bias)
    found = model(ids, REAL.long(), return_all_hidden_states=True)
    assert len(found["all_hidden_states"]) == 4
    for actual, expected in zip(found["all_hidden_states"], states, strict=True):
        torch.testing.assert_close(actual, expected)
    assert torch.equal(found["last_hidden_state"], found["all_hidden_states"][-1])
    assert model(ids, REAL)["all_hidden_states"] is None


@pytest.mark.parametrize("pre_norm", [True, False])
def test_what_stands_in_padding_moves_no_real_position(pre_norm: bool) -> None:
    model = loud(TransformerEncoder(50, WIDTH, HEADS, num_layers=2, d_ff=INNER, max_len=9, pre_norm=pre_norm))
    ids = torch.randint(0, 50, (3, 7), generator=torch.Generator().manual_seed(2))
    other = torch.where(REAL, ids, (ids + 11) % 50)
    one, two = (model(given, REAL)["last_hidden_state"][REAL] for given in (ids, other))
    assert torch.equal(one, two)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_of_padding_alone_stays_finite(dtype: torch.dtype) -> None:
    model = loud(TransformerEncoder(50, WIDTH, HEADS, num_layers=2, d_ff=INNER, max_len=9)).to(dtype)
    found = model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([[1] * 5, [0] * 5]))
    assert found["last_hidden_state"].isfinite().all()


def test_dropout_is_for_training_alone() -> None:
    model = loud(TransformerEncoder(50, WIDTH, HEADS, num_layers=2, d_ff=INNER, max_len=9, dropout=0.5))
    ids = torch.arange(10).view(2, 5)
    assert torch.equal(model(ids)["last_hidden_state"], model(ids)["last_hidden_state"])
    model.train()
    torch.manual_seed(0)
    assert not torch.equal(model(ids)["last_hidden_state"], model(ids)["last_hidden_state"])


def everything_dropped(module: nn.Module, name: str) -> Any:
    """The module in training, one of its dropouts dropping everything and the others nothing."""
    for own, one in module.named_modules():
        if isinstance(one, nn.Dropout):
            one.p = 1.0 if own == name else 0.0
    return module.train()


def branches_of(block: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A pre-norm block's two branches."""
    first, _ = block.self_attn(block.norm1(x), PADDING)
    return first, block.feed_forward(block.norm2(x + first))


def test_dropout_drops_attention_weights() -> None:
    attention = everything_dropped(loud(MultiHeadSelfAttention(WIDTH, HEADS)), "dropout")
    dropped, weights = attention(drawn(3, 7, WIDTH), PADDING, return_attention=True)
    assert torch.equal(dropped, attention.out_proj.bias.expand_as(dropped))
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, HEADS, 7))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_dropout_drops_attention_weights_whatever_computes_them(attention: str) -> None:
    model = loud(TransformerEncoder(50, WIDTH, HEADS, num_layers=1, d_ff=INNER, max_len=9))
    model.set_attn_implementation(attention)
    own = everything_dropped(model, "layers.0.self_attn.dropout").layers[0].self_attn
    assert torch.equal(own(drawn(3, 7, WIDTH))[0], own.out_proj.bias.expand(3, 7, -1))


def test_dropout_drops_both_branches() -> None:
    block = everything_dropped(loud(TransformerEncoderBlock(WIDTH, HEADS, INNER)), "dropout")
    x = drawn(3, 7, WIDTH)
    assert torch.equal(block(x, PADDING)[0], x)


def test_dropout_drops_the_inner_activations() -> None:
    block = everything_dropped(loud(TransformerEncoderBlock(WIDTH, HEADS, INNER)), "feed_forward.dropout")
    x = drawn(3, 7, WIDTH)
    first, _ = branches_of(block, x)
    assert torch.equal(block(x, PADDING)[0], x + first + block.feed_forward.linear2.bias)


def test_dropout_drops_the_embeddings() -> None:
    model = everything_dropped(loud(TransformerEncoder(50, WIDTH, HEADS, 1, INNER, 9)), "dropout")
    assert not model(torch.arange(10).view(2, 5), return_all_hidden_states=True)["all_hidden_states"][0].any()


@pytest.mark.parametrize("mask", [None, PADDING], ids=["unpadded", "padded"])
def test_fused_attention_is_the_eager_one(mask: torch.Tensor | None) -> None:
    model = loud(TransformerEncoder(50, WIDTH, HEADS, num_layers=2, d_ff=INNER, max_len=9))
    ids = torch.randint(0, 50, (3, 7), generator=torch.Generator().manual_seed(2))
    real = None if mask is None else ~mask
    eager = model(ids, real)["last_hidden_state"]
    model.set_attn_implementation("sdpa")
    torch.testing.assert_close(model(ids, real)["last_hidden_state"][REAL], eager[REAL], rtol=1e-5, atol=1e-5)


def test_weights_are_there_whatever_computes_attention() -> None:
    model = loud(TransformerEncoder(50, WIDTH, HEADS, num_layers=1, d_ff=INNER, max_len=9))
    model.set_attn_implementation("sdpa")
    _, weights = model.layers[0](drawn(3, 7, WIDTH), PADDING, return_attention=True)
    assert weights.shape == (3, HEADS, 7, 7)


def test_embeddings_are_added_as_they_are_without_the_scale() -> None:
    model = loud(TransformerEncoder(50, WIDTH, HEADS, 1, INNER, 9, scale_embeddings=False))
    first = model(torch.arange(10).view(2, 5), return_all_hidden_states=True)["all_hidden_states"][0]
    assert torch.equal(first, model.embed_tokens.weight[:10].view(2, 5, -1) + model.embed_positions.weight[:5])


def test_every_norm_has_the_eps_that_is_asked_for() -> None:
    model = TransformerEncoder(9, 8, 2, 2, 8, layer_norm_eps=1e-12)
    assert {module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)} == {1e-12}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: MultiHeadSelfAttention(10, 4), r"d_model = 10 must be a positive multiple of num_heads = 4"),
        (lambda: PositionWiseFeedForward(8, 8, activation="swish"), r"activation = 'swish' is not known"),
        (lambda: MultiHeadSelfAttention(8, 2)(drawn(1, 3, 8), torch.ones(1, 3)), r"expected \(1, 3\) bool"),
        (lambda: MultiHeadSelfAttention(8, 2)(drawn(1, 3, 8), torch.ones(1, 2) > 0), r"shape \(1, 2\)"),
        (lambda: TransformerEncoder(9, 8, 2, 1, 8, max_len=4)(torch.zeros(1, 5).long()), r"at most max_len = 4"),
        (lambda: TransformerEncoder(9, 8, 2, 1, 8)(torch.tensor([[9]])), r"id 9; expected 0 … vocab_size - 1 = 8"),
        (lambda: TransformerEncoder(9, 8, 2, 1, 8)(torch.tensor([[1]]), torch.ones(1, 2)), r"expected \(1, 1\)"),
        (
            lambda: TransformerEncoder(9, 8, 2).set_attn_implementation("flex"),
            r"'flex' is not known; expected eager or",
        ),
    ],
)
def test_bad_input_is_refused(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
