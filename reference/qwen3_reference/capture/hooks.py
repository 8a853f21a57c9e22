"""Recording a PyTorch stack from outside: module hooks, and an attention function for what lives between modules.

Nothing here knows a model class: any stack with Hugging Face's module names (`embed_tokens`, `rotary_emb`, `layers`,
`norm`; in a layer `input_layernorm`, an attention with `{q,k,v,o}_proj` and perhaps `{q,k}_norm`,
`post_attention_layernorm`, `mlp.{gate,up,down}_proj`) is recorded under the names of taps.textproto. Tensors are handed
over by reference, in execution order; the model computes what it would have computed, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import nn

from qwen3_reference.capture.recorded_attention import Attention, recording_attention, visible
from qwen3_reference.capture.sites import IN_ENCODER_HALF, SITES, Sink, Site, emit, encoder_half

__all__ = ["ENCODER_HALF", "Attention", "Sink", "attach", "emit", "encoder_half", "recording_attention", "visible"]

ENCODER_HALF = ("encoder_keys_values", "encoder_position_embeddings")
"""Methods, of the attention module and of the stack, in which projections and tables serve the encoder's half."""


def _first(value: Any) -> Any:
    """A module's main output: itself, or the first of a tuple."""
    return value[0] if isinstance(value, tuple) else value


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """The hidden states that a layer was called with, positional or by name."""
    named = "hidden_states" if "hidden_states" in kwargs else "decoder_hidden_states"
    found: torch.Tensor = args[0] if args else kwargs[named]
    return found


class _Attachment:
    """The hooks of one stack; `undo` collects how to take them off again."""

    def __init__(self, site: Site, undo: ExitStack) -> None:
        self.site = site
        self.undo = undo

    def output(self, module: nn.Module | None, name: str, in_half: str = "") -> None:
        """Emit `module`'s output under `name`, or under `in_half` while the encoder's half is computed."""
        if module is None or not (self.site.wanted(self.site.prefix + name) or in_half):
            return

        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            suffix = in_half if in_half and IN_ENCODER_HALF.get() else name
            self.site.emit(suffix, _first(output))

        self.undo.callback(module.register_forward_hook(hook).remove)

    def input(self, module: nn.Module, name: str) -> None:
        """Emit what `module` is given under `name`."""
        if not self.site.wanted(self.site.prefix + name):
            return

        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.site.emit(name, _given(args, kwargs))

        self.undo.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)

    def in_half(self, module: Any, method: str, after: Callable[[Any], None] | None = None) -> None:
        """Set the encoder-half flag while `module.method` runs, if the module has it; then `after(result)`."""
        original = getattr(module, method, None)
        if original is None:
            return

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with encoder_half():
                result = original(*args, **kwargs)
            if after is not None:
                after(result)
            return result

        setattr(module, method, wrapped)
        self.undo.callback(delattr, module, method)

    def place(self, module: nn.Module, prefix: str) -> Site:
        """Make `module` known to `emit` and the attention function, under `prefix`."""
        site = Site(prefix, self.site.sink, self.site.wanted, self.site.encoder_length, self.site.has_cache)
        SITES[module] = site
        self.undo.callback(SITES.pop, module, None)
        return site


def _attach_sources(on: _Attachment, stack: Any) -> None:
    """The stack's embeddings and RoPE tables, and its final norm."""
    running = [False]  # an embedding shared by two stacks is recorded for the one that runs
    enter = stack.register_forward_pre_hook(lambda *_: running.__setitem__(0, True))
    leave = stack.register_forward_hook(lambda *_: running.__setitem__(0, False), always_call=True)
    on.undo.callback(enter.remove)
    on.undo.callback(leave.remove)

    def embedded(_module: nn.Module, _args: Any, output: torch.Tensor) -> None:
        if running[0]:
            on.site.emit("embed_tokens", output)

    def tables(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        half = "encoder_" if IN_ENCODER_HALF.get() else ""
        on.site.emit(f"{half}position_ids", kwargs["position_ids"] if "position_ids" in kwargs else args[1])
        if not half:
            on.site.emit("inv_freq", module.get_buffer("inv_freq"))
        on.site.emit(f"{half}cos", output[0])
        on.site.emit(f"{half}sin", output[1])

    on.undo.callback(stack.embed_tokens.register_forward_hook(embedded).remove)
    on.undo.callback(stack.rotary_emb.register_forward_hook(tables, with_kwargs=True).remove)
    on.in_half(stack, ENCODER_HALF[1])
    on.output(stack.norm, "norm")


def _attach_layer(on: _Attachment, layer: Any, attention: Any, name: str, site: str, rotated: bool) -> None:
    """One layer's modules; `name` and `site` are the tap prefixes of the layer and of its attention."""
    on.input(layer, f"{name}input")
    on.output(layer.input_layernorm, f"{name}input_layernorm")
    on.output(attention.q_proj, f"{site}q_proj")
    on.output(attention.k_proj, f"{site}k_proj", f"{site}encoder_k_proj")
    on.output(attention.v_proj, f"{site}v_proj", f"{site}encoder_v_proj")
    on.output(getattr(attention, "q_norm", None), f"{site}q_norm")
    on.output(getattr(attention, "k_norm", None), f"{site}k_norm", f"{site}encoder_k_norm")
    on.output(attention.o_proj, f"{site}o_proj")
    on.input(layer.post_attention_layernorm, f"{name}attn_residual")
    on.output(layer.post_attention_layernorm, f"{name}post_attention_layernorm")
    on.output(layer.mlp.gate_proj, f"{name}mlp.gate_proj")
    on.output(layer.mlp.up_proj, f"{name}mlp.up_proj")
    on.input(layer.mlp.down_proj, f"{name}mlp.act")
    on.output(layer.mlp.down_proj, f"{name}mlp.down_proj")
    on.output(layer, f"{name}output")
    place = on.place(attention, on.site.prefix + site)
    keep = (lambda result: place.emit("encoder_k_rope", result[0])) if rotated else None
    on.in_half(attention, ENCODER_HALF[0], keep)


@contextmanager
def attach(
    stack: nn.Module,
    prefix: str,
    sink: Sink,
    *,
    attention: str,
    wanted: Callable[[str], bool],
    encoder_length: int = 0,
) -> Iterator[None]:
    """Record `stack` inside the `with`: each tap of `wanted` goes to `sink(name, tensor)` in execution order.

    `prefix` is "encoder" or "decoder"; `attention` the attribute of a layer that holds its attention (whatever it is,
    the tap names say self_attn in the encoder and merged_attn in the decoder). `encoder_length` is how many of the
    keys given to the decoder's attention function are the encoder's. What lives inside attention is recorded only by a
    model whose `attn_implementation` is a name given to `recording_attention`; logits are the caller's.
    """
    whole: Any = stack
    site = "self_attn" if prefix == "encoder" else "merged_attn"
    with ExitStack() as undo:
        on = _Attachment(Site(f"{prefix}.", sink, wanted, encoder_length, prefix == "decoder"), undo)
        on.place(stack, f"{prefix}.")
        _attach_sources(on, whole)
        rotated = bool(getattr(whole.config, "rotate_encoder_keys", True))
        for index, layer in enumerate(whole.layers):
            name = f"layers.{index}."
            _attach_layer(on, layer, getattr(layer, attention), name, f"{name}{site}.", rotated)
        yield
