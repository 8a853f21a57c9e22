"""Does the loss reach every parameter of both stacks?"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from qwen3_encdec.modeling_qwen3_encdec import Qwen3ForSeq2SeqLM

from .mapping import SHARED

_SEED = 0
_LOOKUPS = ("encoder.embed_tokens", "decoder.embed_tokens")


def verify_gradient_flow(
    model: Qwen3ForSeq2SeqLM, batch_size: int = 2, enc_seq_len: int = 32, dec_seq_len: int = 16
) -> dict[str, bool]:
    """Whether every single parameter gets a finite gradient that is not zero, from one loss on random ids.

    `encoder_receives_gradients` and `decoder_receives_gradients` are the stacks, the head with the decoder;
    `encoder_attention_gradients` is the encoder's attention alone; `shared_embedding_gradients` the one matrix, looked
    up by both stacks. A frozen parameter gets none. The model is left as it was: modes, gradients, `requires_grad`,
    random numbers. `ValueError` for lengths without a gradient to find.
    """
    silent = parameters_without_gradient(model, batch_size, enc_seq_len, dec_seq_len)

    silent_weights = [name for name in silent if name not in (SHARED, *_LOOKUPS)]
    return {
        "encoder_receives_gradients": not any(name.startswith("encoder.") for name in silent_weights),
        "decoder_receives_gradients": not any(name.startswith(("decoder.", "lm_head.")) for name in silent_weights),
        "shared_embedding_gradients": not set(silent) & {SHARED, *_LOOKUPS},
        "encoder_attention_gradients": not any(
            name.startswith("encoder.") and ".self_attn." in name for name in silent_weights
        ),
    }


def parameters_without_gradient(
    model: Qwen3ForSeq2SeqLM, batch_size: int = 2, enc_seq_len: int = 32, dec_seq_len: int = 16
) -> list[str]:
    """The parameters, and look-ups of the shared matrix, that the loss does not reach; as `verify_gradient_flow`.

    Gradients are looked at one by one as they are made: memory for the largest is needed, not for all.
    """
    if min(batch_size, dec_seq_len) < 1 or enc_seq_len < 2:
        raise ValueError(
            f"batch_size = {batch_size}, enc_seq_len = {enc_seq_len}, dec_seq_len = {dec_seq_len}: expected at least "
            "1, 2 and 1; attention over a single token is constant"
        )
    heard: set[str] = set()
    device = model.shared.weight.device
    with _as_it_was(model), torch.enable_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        model.eval()  # type: ignore[no-untyped-call]
        handles = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                partial(_hear_parameter, heard, name)
            )
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]
        handles += [
            model.get_submodule(name).register_forward_hook(partial(_hear_output, heard, name)) for name in _LOOKUPS
        ]
        try:
            generator = torch.Generator().manual_seed(_SEED)
            vocabulary = model.config.vocab_size
            source, target, labels = (
                torch.randint(vocabulary, (batch_size, length), generator=generator).to(device)
                for length in (enc_seq_len, dec_seq_len, dec_seq_len)
            )
            loss = model(input_ids=source, decoder_input_ids=target, labels=labels, use_cache=False).loss
            if loss.requires_grad:
                loss.backward()
        finally:
            for handle in handles:
                handle.remove()
    names = [name for name, _ in model.named_parameters()]
    return [name for name in (*names, *_LOOKUPS) if name not in heard]


def _is_heard(gradient: torch.Tensor) -> bool:
    low, high = gradient.aminmax()
    return bool(torch.isfinite(low) and torch.isfinite(high) and (low != 0 or high != 0))


def _hear_parameter(heard: set[str], name: str, parameter: torch.Tensor) -> None:
    assert parameter.grad is not None
    if _is_heard(parameter.grad):
        heard.add(name)
    parameter.grad = None


def _hear_output(heard: set[str], name: str, module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
    def hear(gradient: torch.Tensor) -> None:
        if _is_heard(gradient):
            heard.add(name)

    if output.requires_grad:
        output.register_hook(hear)  # type: ignore[no-untyped-call]


@contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Put modes and gradients aside, and back."""
    modes = {module: module.training for module in model.modules()}
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        for parameter, gradient in gradients:
            parameter.grad = gradient
