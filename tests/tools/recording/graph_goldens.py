"""Goldens with a graph, made by plain hooks on a tiny model, and models of other make to record on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from transformers import PreTrainedModel, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe import modeling_qwen3_moe

from qwen3_golden import Array, Recording, Writer, minor_of, pb, tensor
from qwen3_golden.recording import plain_provenance
from qwen3_reference.caches import CACHE

BATCH, STEPS = 3, (7, 1, 4)
SLOTS = sum(STEPS)
Taps = dict[tuple[str, int], torch.Tensor]


def moe(attention: str = "eager") -> PreTrainedModel:
    """A tiny Qwen3-MoE, always of the same numbers; no length of it is a length of the case."""
    config = Qwen3MoeConfig(
        vocab_size=61,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=10,
        num_experts=5,
        num_experts_per_tok=2,
        moe_intermediate_size=14,
        norm_topk_prob=True,
        pad_token_id=0,
    )
    config._attn_implementation, config._experts_implementation = attention, "eager"
    model = Qwen3MoeForCausalLM(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(0 if parameter.ndim > 1 else 1, 0.3, generator=generator)
    return model


def inputs() -> dict[str, torch.Tensor]:
    """Ids, a mask that hides nothing, and positions, of all slots."""
    ids = torch.randint(1, 61, (BATCH, SLOTS), generator=torch.Generator().manual_seed(1))
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "position_ids": torch.arange(SLOTS).expand(BATCH, SLOTS).contiguous(),
    }


def golden_of(model: PreTrainedModel, path: Path, given: Mapping[str, torch.Tensor], steps: Sequence[int]) -> Path:
    """The golden of a model that is run step by step with its cache, all that its modules give among its taps."""
    taps, cache, start = Taps(), None, 0
    for step, length in enumerate(steps):
        stop = start + length
        now = {name: one[:, 0 if name == "attention_mask" else start : stop] for name, one in given.items()}
        with hooked(model, taps, step), torch.no_grad():
            result = model(**now, **{CACHE: cache}, use_cache=True)
        cache, start = result[CACHE], stop
        taps["logits", step] = result.logits
        for layer, held in enumerate(cache.layers):
            taps[f"cache.{layer}.keys", step] = held.keys.clone()
            taps[f"cache.{layer}.values", step] = held.values.clone()
    write(path, taps, given, steps, dict(model.named_parameters(remove_duplicate=False)))
    return path


@contextmanager
def hooked(model: nn.Module, taps: Taps, step: int) -> Iterator[None]:
    """Inside, whatever modules give goes to `taps`, by the names that goldens use."""
    calls, handles = Counter[str](), []

    def hook(path: str) -> Any:
        def take(_module: nn.Module, _args: Any, result: Any) -> None:
            calls[path] += 1
            name = path if calls[path] == 1 else f"{path}#{calls[path]}"
            parts = list(result.values()) if isinstance(result, Mapping) else result
            for place, one in enumerate(parts if isinstance(parts, tuple | list) else [parts]):
                if isinstance(one, torch.Tensor):
                    taps[f"{name}[{place}]" if place else name, step] = one.detach().clone()

        return take

    paths = {module: path for path, module in model.named_modules()}
    plain = modeling_qwen3_moe.eager_attention_forward

    def attend(module: nn.Module, query: Any, key: Any, value: Any, *args: Any, **named: Any) -> Any:
        context, probs = plain(module, query, key, value, *args, **named)
        for part, one in {"query": query, "key": key, "value": value, "context": context, "probs": probs}.items():
            taps[f"{paths[module]}.{part}", step] = one.detach().clone()
        return context, probs

    for path, module in model.named_modules():
        if path and not path.endswith("experts.act_fn"):  # each way to compute experts calls it otherwise
            handles.append(module.register_forward_hook(hook(path)))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(modeling_qwen3_moe, "eager_attention_forward", attend)
            yield
    finally:
        for handle in handles:
            handle.remove()


def axes_of(name: str, shape: Sequence[int], length: int) -> list[str]:
    """What each dimension of a tap is, by its length in the first step, which nothing else has."""
    grown = name.startswith("cache.") or name.endswith((".key", ".value"))
    words = {BATCH: "batch", length: "key" if grown else "query", BATCH * length: "row"}
    axes = [words.get(size, "channel") for size in shape]
    return [*axes[:-1], "key"] if name.endswith(("self_attn[1]", ".probs")) else axes


def write(
    path: Path,
    taps: Taps,
    given: Mapping[str, torch.Tensor],
    steps: Sequence[int],
    parameters: Mapping[str, torch.Tensor],
) -> None:
    """Write a golden with a graph that says no more than what a model is called."""
    from qwen3_reference.torch_tensors import parameter_messages

    case = pb.Case(name=path.stem, mode=pb.GRAPH, steps=steps)
    axes = {name: axes_of(name, one.shape, steps[0]) for (name, step), one in taps.items() if not step}
    with Writer(path, schema_minor=minor_of(case)) as writer:
        for name, one in given.items():
            writer.add(tensor(f"input.{name}", one.numpy(), axes=("batch", "query", "channel")[: one.ndim], op="input"))
        for (name, step), one in taps.items():
            writer.add(tensor(name, one.numpy(), step=step, axes=axes[name]))
        run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER)
        graph = pb.Graph(architecture="Qwen3MoeForCausalLM")
        digests = parameter_messages(parameters)
        writer.finish(case, plain_provenance("qwen3_reference"), run, digests, graph=graph)


class Flat(nn.Module):
    """The same network by hand, its rows in one axis `[batch · query, channel]`, its modules called otherwise."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.config, base = model.config, model.model
        self.embed, self.head = base.embed_tokens, model.lm_head
        self.blocks = nn.ModuleList(Block(layer) for layer in base.layers)
        self.last = Norm(base.norm.weight)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = self.embed(tokens.reshape(-1))
        for block in self.blocks:
            rows = block(rows, *tokens.shape)
        return self.head(self.last(rows))


class Norm(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.g = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.g * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Block(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        attention, experts = layer.self_attn, layer.mlp
        self.n1, self.n2 = Norm(layer.input_layernorm.weight), Norm(layer.post_attention_layernorm.weight)
        self.qkv, self.wo = nn.Linear(24, 100, bias=False), attention.o_proj
        weights = (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
        self.qkv.weight = nn.Parameter(torch.cat(weights), requires_grad=False)
        self.qn, self.kn = Norm(attention.q_norm.weight), Norm(attention.k_norm.weight)
        self.route, self.moe = nn.Linear(24, 5, bias=False), Experts(experts.experts)
        self.route.weight = nn.Parameter(experts.gate.weight, requires_grad=False)

    def forward(self, rows: torch.Tensor, batch: int, length: int) -> torch.Tensor:
        q, k, v = self.qkv(self.n1(rows)).split([60, 20, 20], -1)
        q = self.qn(q.view(batch, length, 6, 10)).transpose(1, 2)
        k, v = self.kn(k.view(batch, length, 2, 10)).transpose(1, 2), v.view(batch, length, 2, 10).transpose(1, 2)
        context = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        rows = rows + self.wo(context.transpose(1, 2).reshape(batch * length, 60))
        x = self.n2(rows)
        weights, chosen = self.route(x).softmax(-1).topk(2, -1)
        return rows + self.moe(x, weights / weights.sum(-1, keepdim=True), chosen)


class Experts(nn.Module):
    def __init__(self, experts: Any) -> None:
        super().__init__()
        self.up, self.down = experts.gate_up_proj, experts.down_proj

    def forward(self, x: torch.Tensor, weights: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        gate, up = torch.einsum("rh,rkch->rkc", x, self.up[chosen]).chunk(2, -1)
        each = torch.einsum("rkc,rkhc->rkh", F.silu(gate) * up, self.down[chosen])
        return (each * weights[..., None]).sum(1)


def turned(x: torch.Tensor) -> torch.Tensor:
    """Queries or keys `[batch, heads, length, 10]` turned by their positions from 0."""
    angles = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(0, 10, 2) / 10)
    cos, sin = (torch.cat([one, one], -1) for one in (angles.cos(), angles.sin()))
    return x * cos + torch.cat([-x[..., 5:], x[..., :5]], -1) * sin


class Twice(nn.Module):
    """Calls a module twice, gives several tensors among other things, and ends in one row a text."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.norm, self.pair = nn.Embedding(61, 24), nn.LayerNorm(24), Pair()
        self.pool = nn.Linear(24, 5)

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        x, _, more = self.pair(self.norm(self.embed(input_ids)))
        last = self.norm(x + more)
        return {"last_hidden_state": last, "pooler_output": self.pool(last[:, -1])}


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None, torch.Tensor]:
        return x * 2, None, x + 1


FLAT = {
    "embed": "model.embed_tokens",
    "blocks.{layer}.n1": "input_layernorm",
    "blocks.{layer}.qkv": ["q_proj", "k_proj", "v_proj"],
    "blocks.{layer}.qn": "q_norm",
    "blocks.{layer}.kn": "model.layers.{layer}.self_attn.k_norm",
    "blocks.*.wo": "model.layers.*.self_attn.o_proj",
    "blocks.{layer}.n2": "post_attention_layernorm",
    "blocks.{layer}.route": "mlp.gate",
    "blocks.{layer}.moe": "mlp.experts",
    "blocks.{layer}": "model.layers.{layer}",
    "last": "model.norm",
    "": "logits",
}


def distance(recording: Recording, golden: Recording) -> float:
    """The largest difference of a recording's taps from the golden's, in parts of the golden's largest number."""
    return max(_distance(item.values(), golden[item.key].values()) for item in recording)


def _distance(actual: Array, expected: Array) -> float:
    assert actual.shape == expected.shape
    return float(np.abs(actual.astype(np.float64) - expected).max() / max(np.abs(expected).max(), 1e-9))
