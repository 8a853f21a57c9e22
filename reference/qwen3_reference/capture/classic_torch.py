"""torch's own classic encoder as the reference: `nn.TransformerEncoder` behind two embeddings, both ways of norming.

Modules are hooked. Attention computes inside one function: it is made to give its weights of each head, and the tensors
of its kernels are taken as they pass, so that every tap is a number that the module itself computed or used. torch's
fast path, which rounds otherwise and empties padded rows, is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from qwen3_golden import Array, ParityError, pb
from qwen3_reference.capture.softmax_check import additive

Taps = dict[str, torch.Tensor]
_NAMES = {"self_attn.qkv_proj.": "self_attn.in_proj_", "feed_forward.": ""}
"""Parts of canonical names that torch has otherwise."""


class _Kernels(TorchDispatchMode):
    """The kernels that run inside: name -> arguments and result of every call."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[str, list[tuple[Any, torch.Tensor]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the kernel and keep what it was given and gave."""
        result = func(*args, **(kwargs or {}))
        self.calls.setdefault(func.overloadpacket.__name__, []).append((args, result))
        return result


def _attention(taps: Taps, site: str, kernels: _Kernels, probs: torch.Tensor) -> None:
    """The taps inside of torch's attention, from its kernels: it keeps positions first, and heads beside the batch."""
    batch, heads, query, _ = probs.shape
    (_, scaled, keys), _ = kernels.calls["baddbmm"][0]
    (weights, values), context = kernels.calls["bmm"][0]
    queries = kernels.calls["mul"][0][0][0]
    if not torch.equal(weights.reshape(probs.shape), probs):
        raise ParityError(
            site,
            "the weights that attention returns are not those that it used",
            expected="the first operand of its last batched product",
            got="other numbers",
            next_step="read torch's multi_head_attention_forward, which has changed",
            fault="harness bug",
        )
    # The bias may be added by itself: the last sum of this width is the projection.
    sums = [*kernels.calls.get("addmm", ()), *kernels.calls.get("add", ())]
    projected = [result for _, result in sums if result.shape[-1] == 3 * values.shape[-1] * heads][-1]
    taps[f"{site}.qkv_proj"] = projected.view(query, batch, -1).transpose(0, 1)
    for name, value in (("q", queries), ("k", keys.transpose(1, 2)), ("v", values)):
        taps[f"{site}.{name}"] = value.reshape(batch, heads, query, -1)
    taps[f"{site}.scores"] = torch.bmm(scaled, keys).view(probs.shape)
    taps[f"{site}.probs"] = probs
    taps[f"{site}.context"] = context.view(batch, heads, query, -1).transpose(1, 2)


@contextmanager
def _hooked(stack: nn.TransformerEncoder, network: str, taps: Taps) -> Iterator[None]:
    """Record every layer of the stack inside the `with`."""
    with ExitStack() as undo:

        def output(module: nn.Module, name: str) -> None:
            undo.callback(module.register_forward_hook(lambda _m, _a, y: taps.__setitem__(name, y)).remove)

        def given(module: nn.Module, name: str) -> None:
            undo.callback(module.register_forward_pre_hook(lambda _m, args: taps.__setitem__(name, args[0])).remove)

        for index, layer in enumerate(stack.layers):
            name, own = f"{network}.layers.{index}", _parts(layer)
            given(layer, f"{name}.input")
            for one in ("norm1", "norm2"):
                output(own[one], f"{name}.{one}")
            given(own["norm2" if network == "pre_norm" else "norm1"], f"{name}.attn_residual")
            if network == "post_norm":
                given(own["norm2"], f"{name}.ff_residual")
            for one in ("linear1", "linear2"):
                output(own[one], f"{name}.feed_forward.{one}")
            given(own["dropout"], f"{name}.feed_forward.act")
            output(layer, f"{name}.output")
            undo.callback(_hook_attention(own["self_attn"], f"{name}.self_attn", taps))
        yield


def _parts(layer: nn.Module) -> Mapping[str, nn.Module]:
    return dict(layer.named_children())


def _hook_attention(attention: nn.Module, site: str, taps: Taps) -> Callable[[], None]:
    """Record an attention; gives what takes the hooks off again."""
    running: list[_Kernels] = []

    def before(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        running.append(_Kernels())
        running[-1].__enter__()  # type: ignore[no-untyped-call]
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def after(_module: nn.Module, _args: Any, output: Any) -> None:
        kernels = running.pop()
        kernels.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        taps[f"{site}.out_proj"] = output[0]
        _attention(taps, site, kernels, output[1])

    hooks = attention.register_forward_pre_hook(before, with_kwargs=True), attention.register_forward_hook(after)

    def undo() -> None:
        for hook in hooks:
            hook.remove()

    return undo


def build(config: pb.ModelConfig, weights: Mapping[str, Array]) -> tuple[nn.ModuleDict, nn.TransformerEncoder]:
    """torch's embeddings and stack with the weights of a checkpoint, in evaluation mode."""
    own, network = config.classic_encoder, "pre_norm" if config.classic_encoder.norm_first else "post_norm"
    layer = nn.TransformerEncoderLayer(
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        activation=config.hidden_act,
        layer_norm_eps=own.layer_norm_eps,
        batch_first=True,
        norm_first=own.norm_first,
    )
    norm = nn.LayerNorm(config.hidden_size, eps=own.layer_norm_eps) if own.norm_first else None
    stack = nn.TransformerEncoder(layer, config.num_hidden_layers, norm, enable_nested_tensor=False)
    state: dict[str, torch.Tensor] = {}
    tables = nn.ModuleDict()
    for full, values in weights.items():
        name = full.removeprefix(f"{network}.")
        value = torch.from_numpy(np.array(values))
        if name.startswith("embed_"):
            table = tables[name.partition(".")[0]] = nn.Embedding(*value.shape)
            table.load_state_dict({"weight": value})
            continue
        for ours, theirs in _NAMES.items():
            name = name.replace(ours, theirs)
        state[name] = value
    stack.load_state_dict(state)
    return tables, stack.train(mode=False)


def run_torch(config: pb.ModelConfig, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> Taps:
    """Every tap of a case with embeddings, by name. Raises `ParityError` when torch's attention is not as it was."""
    network = "pre_norm" if config.classic_encoder.norm_first else "post_norm"
    tables, stack = build(config, weights)
    given = {name.removeprefix("input.encoder_"): torch.from_numpy(np.array(value)) for name, value in inputs.items()}
    real, taps = given["attention_mask"], Taps()
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), _hooked(stack, network, taps):
            tokens = taps[f"{network}.embed_tokens"] = tables["embed_tokens"](given["input_ids"])
            taps[f"{network}.embed_positions"] = tables["embed_positions"](given["position_ids"])
            scale = config.hidden_size**0.5 if config.classic_encoder.scale_embeddings else 1.0
            hidden = taps[f"{network}.embeddings"] = tokens * scale + taps[f"{network}.embed_positions"]
            # Numbers, not bools: of those torch makes -inf, and a row of padding alone would be NaN.
            hidden = stack(hidden, src_key_padding_mask=additive(real, torch.float32))
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
    for index in range(config.num_hidden_layers):
        taps[f"{network}.layers.{index}.self_attn.mask"] = real[:, None].expand(-1, real.shape[1], -1)
    taps["pre_norm.norm" if network == "pre_norm" else "post_norm.last_hidden_state"] = hidden
    return taps
