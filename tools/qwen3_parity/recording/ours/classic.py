"""Our own classic encoder as an implementation under test: how it is loaded, run and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qwen3_encdec.classic_attention import Attention, scaled_scores
from qwen3_encdec.transformer_encoder import TransformerEncoder
from qwen3_encdec.weights.files import read_tensors, stored_tensors
from qwen3_golden import Array, ParityError, pb, table
from qwen3_parity.recording.record import ARITHMETIC, Tap
from qwen3_spec.ops import OPS

BACKENDS = {"eager": pb.EAGER, "sdpa": pb.SDPA}
Emit = Callable[[str, torch.Tensor], None]


def _network(case: pb.Case) -> str:
    return "pre_norm" if case.config.classic_encoder.norm_first else "post_norm"


def _refuse(case: pb.Case, rule: str, expected: object, got: object) -> ParityError:
    return ParityError(case.name, rule, expected=expected, got=got, next_step="mend the checkpoint or the command")


def _load(case: pb.Case, directory: Path, dtype: torch.dtype) -> tuple[TransformerEncoder, dict[str, nn.Parameter]]:
    """Our model with the directory's tensors, and those parameters that the directory has, by canonical name."""
    config, own = case.config, case.config.classic_encoder
    model = TransformerEncoder(
        config.vocab_size or 1,  # a network that starts with hidden states has no embeddings: these stay unused
        config.hidden_size,
        config.num_attention_heads,
        config.num_hidden_layers,
        config.intermediate_size,
        config.max_position_embeddings or 1,
        activation=config.hidden_act,
        pre_norm=own.norm_first,
        layer_norm_eps=own.layer_norm_eps,
        scale_embeddings=own.scale_embeddings,
    )
    state = dict(read_tensors(stored_tensors(directory)))
    unused = {"embed_tokens.weight", "embed_positions.weight"} if own.starts_with_hidden_states else set[str]()
    found = model.load_state_dict(state, strict=False)
    if found.unexpected_keys or set(found.missing_keys) != unused:
        strange = [*found.unexpected_keys, *sorted(set(found.missing_keys) - unused)]
        raise _refuse(case, "the checkpoint is another network's", "its tensors and no others", ", ".join(strange))
    model.to(dtype).train(mode=False)
    named = {f"{_network(case)}.{name}": p for name, p in model.named_parameters() if name not in unused}
    return model, named


class ClassicEncoder:
    """A loaded `TransformerEncoder` that runs cases; see `record.Runner`."""

    producer = "qwen3_encdec"

    def __init__(self, case: pb.Case, directory: Path, backend: str, dtype: torch.dtype) -> None:
        backend = backend if backend in BACKENDS else "eager"  # it has no flex attention: the recording says what ran
        self.model, self.parameters = _load(case, directory, dtype)
        self.model.set_attn_implementation(backend)
        fused = frozenset() if backend == "eager" else frozenset(name for name, op in OPS.items() if op.masked)
        shown = [row.pattern for row in table() if row.op not in fused]
        self.run = pb.Run(arithmetic=ARITHMETIC[dtype], backend=BACKENDS[backend], materialised=shown)

    @torch.no_grad()
    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, wanted: Callable[[str], bool]) -> None:
        """Run the case: the whole model, or its layers on the hidden states that the case gives."""
        network = _network(case)

        def emit(name: str, value: torch.Tensor) -> None:
            if wanted(f"{network}.{name}"):
                tap(f"{network}.{name}", 0, value)

        mask = torch.from_numpy(inputs["input.encoder_attention_mask"].copy())
        with _recorded(self.model, emit, inputs):
            if case.config.classic_encoder.starts_with_hidden_states:
                last = torch.from_numpy(inputs["input.hidden_states"].copy()).to(next(self.model.parameters()).dtype)
                for layer in self.model.layers:
                    last, _ = layer(last, None if bool(mask.all()) else ~mask)
            else:
                ids = torch.from_numpy(inputs["input.encoder_input_ids"].copy())
                last = self.model(ids, None if bool(mask.all()) else mask.long())["last_hidden_state"]
        emit("norm" if network == "pre_norm" else "last_hidden_state", last)


@contextmanager
def _recorded(model: TransformerEncoder, emit: Emit, inputs: Mapping[str, Array]) -> Iterator[None]:
    """Hand every tap but the network's output to `emit` inside the `with`."""
    with ExitStack() as undo:

        def output(module: nn.Module, name: str) -> None:
            undo.callback(module.register_forward_hook(lambda _m, _a, y: emit(name, _first(y))).remove)

        def given(module: nn.Module, name: str) -> None:
            undo.callback(module.register_forward_pre_hook(lambda _m, args: emit(name, args[0])).remove)

        def positions(_module: nn.Module, _args: Any, rows: torch.Tensor) -> None:
            batch = len(inputs["input.encoder_input_ids"])
            emit("embed_positions", rows if rows.dim() == 3 else rows.expand(batch, -1, -1))

        output(model.embed_tokens, "embed_tokens")
        undo.callback(model.embed_positions.register_forward_hook(positions).remove)
        given(model.dropout, "embeddings")
        stack: Any = model.layers
        for index, layer in enumerate(stack):
            _record_layer(layer, f"layers.{index}", output, given)
            plain = layer.self_attn.attention
            layer.self_attn.attention = _recording(plain, f"layers.{index}.self_attn", emit)
            undo.callback(setattr, layer.self_attn, "attention", plain)
        yield


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def _record_layer(layer: Any, name: str, output: Callable[..., None], given: Callable[..., None]) -> None:
    given(layer, f"{name}.input")
    for one in ("norm1", "norm2", "self_attn.qkv_proj", "self_attn.out_proj"):
        output(layer.get_submodule(one), f"{name}.{one}")
    for one in ("linear1", "linear2"):
        output(layer.feed_forward.get_submodule(one), f"{name}.feed_forward.{one}")
    given(layer.feed_forward.dropout, f"{name}.feed_forward.act")
    if layer.pre_norm:
        given(layer.norm2, f"{name}.attn_residual")
    else:
        given(layer.norm1, f"{name}.attn_residual")
        given(layer.norm2, f"{name}.ff_residual")
    output(layer, f"{name}.output")


def _recording(plain: Attention, site: str, emit: Emit) -> Attention:
    """The attention with what it is given and gives handed to `emit`."""

    def attend(q: Any, k: Any, v: Any, hidden: Any, dropout: nn.Dropout) -> Any:
        for name, value in (("q", q), ("k", k), ("v", v)):
            emit(f"{site}.{name}", value)
        shown = torch.ones(q.shape[0], 1, 1, k.shape[2], dtype=torch.bool) if hidden is None else ~hidden
        emit(f"{site}.mask", shown.expand(-1, -1, q.shape[2], -1)[:, 0])
        context, weights = plain(q, k, v, hidden, dropout)
        if weights is not None:
            emit(f"{site}.scores", scaled_scores(q, k))
            emit(f"{site}.probs", weights)
        emit(f"{site}.context", context.transpose(1, 2))
        return context, weights

    return attend


def classic_encoder(
    case: pb.Case, checkpoints: Mapping[str, Path], *, backend: str, dtype: torch.dtype
) -> ClassicEncoder:
    """Our classic encoder for a case, from its checkpoint directory."""
    return ClassicEncoder(case, checkpoints["encoder"], backend, dtype)
