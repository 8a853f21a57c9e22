"""`verify_gradient_flow`: every parameter is looked at, whatever stops a gradient shows, the model stays as it was."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from qwen3_encdec import verify_gradient_flow
from qwen3_encdec.weights.gradient_flow import parameters_without_gradient

KEYS = (
    "encoder_receives_gradients",
    "decoder_receives_gradients",
    "shared_embedding_gradients",
    "encoder_attention_gradients",
)
ENC, DEC = "encoder.layers.1.self_attn", "decoder.layers.2.merged_attn"


def _frozen(*names: str) -> Callable[[Any], None]:
    def stop(model: Any) -> None:
        for name in names:
            model.get_parameter(name).requires_grad_(False)

    return stop


def _detached(path: str) -> Callable[[Any], None]:
    def stop(model: Any) -> None:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            if isinstance(output, torch.Tensor):
                return output.detach()
            output.last_hidden_state = output.last_hidden_state.detach()
            return output

        model.get_submodule(path).register_forward_hook(hook)

    return stop


def _zero(name: str) -> Callable[[Any], None]:
    return lambda model: model.get_parameter(name).data.zero_()


STOPS: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    "one frozen norm": (_frozen("encoder.layers.1.input_layernorm.weight"), {KEYS[0]}),
    "one frozen k_norm": (_frozen(f"{ENC}.k_norm.weight"), {KEYS[0], KEYS[3]}),
    "one frozen decoder norm": (_frozen("decoder.norm.weight"), {KEYS[1]}),
    "the embedding frozen": (_frozen("shared.weight"), {KEYS[2]}),
    "the encoder detached": (_detached("encoder"), {KEYS[0], KEYS[2], KEYS[3]}),
    "one projection detached": (_detached(f"{ENC}.v_proj"), {KEYS[0], KEYS[3]}),
    "one look-up detached": (_detached("decoder.embed_tokens"), {KEYS[2]}),
    "a gate that is closed": (_zero("decoder.layers.0.mlp.down_proj.weight"), {KEYS[1]}),
    "no encoder in the decoder": (_zero(f"{DEC}.o_proj.weight"), {KEYS[1]}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "variant", [{}, {"tie_word_embeddings": False}, {"use_qk_norm": False, "attention_bias": True}], ids=str
)
def test_every_parameter_of_a_sound_model_receives_a_gradient(make_model: Any, variant: Any, dtype: Any) -> None:
    model = make_model(**variant).to(dtype)
    assert parameters_without_gradient(model) == []
    assert verify_gradient_flow(model) == dict.fromkeys(KEYS, True)


@pytest.mark.parametrize("stop", STOPS)
def test_whatever_stops_a_gradient_fails_the_checks_of_its_part_alone(make_model: Any, stop: str) -> None:
    model = make_model()
    STOPS[stop][0](model)
    assert {key for key, passed in verify_gradient_flow(model).items() if not passed} == STOPS[stop][1]


def test_a_head_of_its_own_belongs_to_the_decoder(make_model: Any) -> None:
    model = make_model(tie_word_embeddings=False)
    model.lm_head.weight.requires_grad_(False)
    assert [key for key, passed in verify_gradient_flow(model).items() if not passed] == [KEYS[1]]


def test_a_gradient_that_is_not_finite_is_none(make_model: Any) -> None:
    model = make_model()
    model.decoder.layers[0].mlp.up_proj.weight.register_hook(lambda gradient: gradient * float("nan"))
    assert parameters_without_gradient(model) == ["decoder.layers.0.mlp.up_proj.weight"]


def test_a_model_that_is_frozen_altogether_receives_none(make_model: Any) -> None:
    model = make_model().requires_grad_(False)
    assert verify_gradient_flow(model) == dict.fromkeys(KEYS, False)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("outcome", ["returns", "raises"])
def test_the_model_is_left_as_it_was(make_model: Any, training: bool, outcome: str) -> None:
    model = make_model(attention_dropout=0.3).train(training)
    model.encoder.layers[1].train(not training)
    model.encoder.norm.weight.requires_grad_(False)
    kept = torch.ones(40)
    model.decoder.norm.weight.grad = kept
    modes = {name: module.training for name, module in model.named_modules()}
    values = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.random.get_rng_state()
    if outcome == "raises":
        handle = model.decoder.register_forward_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            verify_gradient_flow(model)
        handle.remove()
    else:
        verify_gradient_flow(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == ["encoder.norm.weight"]
    assert [name for name, p in model.named_parameters() if p.grad is not None] == ["decoder.norm.weight"]
    assert model.decoder.norm.weight.grad is kept and torch.equal(kept, torch.ones(40))
    assert all(torch.equal(tensor, values[name]) for name, tensor in model.state_dict().items())
    assert not model.encoder.embed_tokens._forward_hooks and not model.shared.weight._post_accumulate_grad_hooks


def test_gradients_are_found_where_they_are_switched_off(make_model: Any) -> None:
    with torch.no_grad():
        assert all(verify_gradient_flow(make_model(), batch_size=1, enc_seq_len=5, dec_seq_len=1).values())


@pytest.mark.parametrize("lengths", [(0, 4, 4), (1, 1, 4), (1, 4, 0)])
def test_lengths_without_a_gradient_to_find_are_refused(make_model: Any, lengths: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="batch_size = "):
        verify_gradient_flow(make_model(), *lengths)
