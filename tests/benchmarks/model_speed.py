"""Models of Qwen3-0.6B's shape with random weights, ours and Hugging Face's over the same tensors, and their timing."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.initialization import no_init_weights
from transformers.models.t5gemma2.configuration_t5gemma2 import (
    T5Gemma2Config,
    T5Gemma2DecoderConfig,
    T5Gemma2EncoderConfig,
    T5Gemma2TextConfig,
)
from transformers.models.t5gemma2.modeling_t5gemma2 import T5Gemma2ForConditionalGeneration
from turns import Clock, Generate, now

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM
from qwen3_encdec.modeling_qwen3_encoder import Qwen3EncoderOutput

DEPTH = 28
EIGHTH = 4
SHAPE: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
}
Work = Callable[[], object]


def seconds(work: Work) -> float:
    start = now()
    work()
    return now() - start


def taking_turns(works: dict[str, Work], rounds: int) -> dict[str, list[float]]:
    """Seconds of each work in each round, after one round that is not counted; every other round goes backwards.

    What runs second finds other things in the processor's cache than what runs first, which is worth a percent.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for counted in range(-1, rounds):
        for name, work in list(works.items())[:: 1 if counted % 2 else -1]:
            taken = seconds(work)
            if counted >= 0:
                times[name].append(taken)
    return times


def _drawn(model: Any, dtype: torch.dtype) -> Any:
    """The model, built without memory, on the CPU with small random weights in every layer, each its own memory."""
    model = model.to_empty(device="cpu").to(dtype)
    torch.manual_seed(0)
    pool = 0.02 * torch.randn(1 << 22, dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            flat = parameter.view(-1)
            for start in range(0, len(flat), len(pool)):
                part = flat[start : start + len(pool)]
                part.copy_(pool[: len(part)])
    return model.eval()


def _meta(build: Callable[[], Any]) -> Any:
    with torch.device("meta"), no_init_weights():
        return build()


class Pair:
    """Our model and HF's Qwen3 of one depth; both stacks of ours and HF's share one set of tensors."""

    def __init__(self, layers: int, dtype: torch.dtype, sizes: dict[str, int] | None = None) -> None:
        tokens = {"bos_token_id": 3, "eos_token_id": None, "pad_token_id": 0, "attn_implementation": "sdpa"}
        shape = {**SHAPE, **(sizes or {}), **tokens, "num_hidden_layers": layers, "tie_word_embeddings": True}
        config = Qwen3EncoderDecoderConfig(**shape, num_sentinel_tokens=0, decoder_start_token_id=3)
        rope = {"rope_type": "default", "rope_theta": config.rope_theta}
        self.ours: Any = _meta(lambda: Qwen3ForSeq2SeqLM(config)).eval()
        theirs = Qwen3Config(**shape, rope_parameters=rope)
        self.hf: Any = _meta(lambda: Qwen3ForCausalLM(theirs)).eval()
        drawn = _drawn(self.hf.model, dtype)
        drawn.rotary_emb = type(drawn.rotary_emb)(theirs)
        weights = drawn.state_dict()
        self.ours.encoder.load_state_dict(weights, assign=True)
        merged = {name.replace("self_attn", "merged_attn"): value for name, value in weights.items()}
        self.ours.decoder.load_state_dict(merged, assign=True)
        embedding = drawn.embed_tokens.weight
        holders = (self.ours.shared, self.ours.lm_head, self.hf.lm_head)
        for holder in (*holders, self.ours.encoder.embed_tokens, self.ours.decoder.embed_tokens):
            holder.weight = embedding
        for stack in (self.ours.encoder, self.ours.decoder):
            stack.rotary_emb.reset_inv_freq(torch.device("cpu"))
        self.matrices = [module.weight for module in self.hf.modules() if isinstance(module, nn.Linear)]
        self.rows = [torch.ones(1, matrix.shape[1], dtype=dtype) for matrix in self.matrices]

    def linears(self, new: int) -> Generate:
        """Every matrix that a token needs, applied to one row, for `new` tokens: what no decode step can do without."""

        @torch.no_grad()
        def run(clock: Clock) -> None:
            clock.put("the prompt")
            for token in range(new):
                for matrix, row in zip(self.matrices, self.rows, strict=True):
                    nn.functional.linear(row, matrix)
                clock.put(token)
            clock.end()

        return run

    def decode(self, source: int, new: int) -> dict[str, Generate]:
        """Greedy `generate()` of `new` tokens behind as many keys on both sides: `source` of the encoder, or own."""
        memory = torch.randn(1, source, self.ours.config.hidden_size).to(self.ours.dtype)
        start, prompt = torch.arange(5, 9)[None], torch.arange(5, 9 + source)[None]
        fixed = {"min_new_tokens": new, "max_new_tokens": new, "do_sample": False}

        def ours(clock: Clock) -> None:
            encoded = Qwen3EncoderOutput(last_hidden_state=memory)
            inputs = {"encoder_outputs": encoded, "decoder_input_ids": start, "decoder_start_token_id": 5}
            self.ours.generate(**inputs, **fixed, streamer=clock)

        def theirs(clock: Clock) -> None:
            self.hf.generate(prompt, attention_mask=torch.ones_like(prompt), **fixed, streamer=clock)

        return {"ours": ours, "hf": theirs}


def t5gemma2(layers: int, dtype: torch.dtype) -> Any:
    """HF's T5Gemma 2 with Qwen3-0.6B's shape in both stacks and the smallest of vision towers, which is not run."""
    text = {name: SHAPE[name] for name in SHAPE} | {
        "num_hidden_layers": layers,
        "query_pre_attn_scalar": SHAPE["head_dim"],
        "layer_types": ["full_attention"] * layers,
        "eos_token_id": None,
        "attn_implementation": "sdpa",
    }
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "image_size": 14,
        "patch_size": 14,
    }
    encoder = T5Gemma2EncoderConfig(
        text_config=T5Gemma2TextConfig(**text).to_dict(),
        vision_config=vision,
        mm_tokens_per_image=1,
        boi_token_index=1,
        eoi_token_index=2,
        image_token_index=4,
    )
    config = T5Gemma2Config(encoder=encoder, decoder=T5Gemma2DecoderConfig(**text), attn_implementation="sdpa")
    model = T5Gemma2ForConditionalGeneration._from_config(config, dtype=dtype)
    return model.eval()


def ratio(above: list[float], below: list[float]) -> float:
    """The median over the rounds of the two times of a round."""
    return median(a / b for a, b in zip(above, below, strict=True))
