"""A Qwen3 as somebody writes it who has never heard of this project: own names, fused products, positions first."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.g * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def rotated(x: torch.Tensor, theta: float, interleaved: bool) -> torch.Tensor:
    """`x` [seq, batch, heads, width], turned by its position."""
    width = x.shape[-1]
    freqs = 1.0 / theta ** (torch.arange(0, width, 2).float() / width)
    angles = (torch.arange(len(x)).float()[:, None] * freqs)[:, None, None]
    cos, sin = angles.cos(), angles.sin()
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Mixer(nn.Module):
    def __init__(self, c: dict[str, Any], interleaved: bool) -> None:
        super().__init__()
        self.h, self.kv, self.d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.theta, self.interleaved = c["rope_theta"], interleaved
        self.wqkv = nn.Linear(c["hidden_size"], (self.h + 2 * self.kv) * self.d, bias=False)
        self.wo = nn.Linear(self.h * self.d, c["hidden_size"], bias=False)
        self.qn, self.kn = Norm(self.d, c["rms_norm_eps"]), Norm(self.d, c["rms_norm_eps"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seq, batch, _ = x.shape
        qkv = self.wqkv(x).view(seq, batch, -1, self.d)
        q, k, v = qkv.split([self.h, self.kv, self.kv], 2)
        q, k = (rotated(one, self.theta, self.interleaved) for one in (self.qn(q), self.kn(k)))
        k, v = (one.repeat_interleave(self.h // self.kv, 2) for one in (k, v))
        q, k, v = (one.permute(1, 2, 0, 3) for one in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.permute(2, 0, 1, 3).reshape(seq, batch, -1))


class Ffn(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.w13 = nn.Linear(c["hidden_size"], 2 * c["intermediate_size"], bias=False)
        self.w2 = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.w13(x).chunk(2, -1)
        return self.w2(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, c: dict[str, Any], interleaved: bool) -> None:
        super().__init__()
        self.n1, self.n2 = (Norm(c["hidden_size"], c["rms_norm_eps"]) for _ in range(2))
        self.mix, self.ffn = Mixer(c, interleaved), Ffn(c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(self.n1(x))
        x += self.ffn(self.n2(x))
        return x


class PlainQwen3(nn.Module):
    """`forward(tokens [batch, seq]) -> logits [batch, seq, vocab]`, without a cache; built from a checkpoint."""

    def __init__(self, checkpoint: Path, *, interleaved: bool = False) -> None:
        super().__init__()
        c = json.loads((checkpoint / "config.json").read_text())
        self.wte = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.blocks = nn.ModuleList(Block(c, interleaved) for _ in range(c["num_hidden_layers"]))
        self.ln_f = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.load(load_file(checkpoint / "model.safetensors"))
        self.eval().requires_grad_(False)

    def load(self, w: dict[str, torch.Tensor]) -> None:
        own = {"wte.weight": w["model.embed_tokens.weight"], "ln_f.g": w["model.norm.weight"]}
        for i in range(len(self.blocks)):
            theirs, ours = f"model.layers.{i}.", f"blocks.{i}."
            own[ours + "n1.g"] = w[theirs + "input_layernorm.weight"]
            own[ours + "n2.g"] = w[theirs + "post_attention_layernorm.weight"]
            own[ours + "mix.wqkv.weight"] = torch.cat([w[f"{theirs}self_attn.{one}_proj.weight"] for one in "qkv"])
            own[ours + "mix.wo.weight"] = w[theirs + "self_attn.o_proj.weight"]
            own[ours + "mix.qn.g"] = w[theirs + "self_attn.q_norm.weight"]
            own[ours + "mix.kn.g"] = w[theirs + "self_attn.k_norm.weight"]
            own[ours + "ffn.w13.weight"] = torch.cat([w[f"{theirs}mlp.{one}_proj.weight"] for one in ("gate", "up")])
            own[ours + "ffn.w2.weight"] = w[theirs + "mlp.down_proj.weight"]
        self.load_state_dict(own)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens).transpose(0, 1)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight).transpose(0, 1)
