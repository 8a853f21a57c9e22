"""Our own encoder–decoder as an implementation under test: how it is loaded, run and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.attention import eager_attention_forward, scaled_scores
from qwen3_encdec.backends import block_mask
from qwen3_encdec.cache_name import CACHE
from qwen3_encdec.modeling_qwen3_encoder import Qwen3EncoderOutput
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import Array, ParityError, Recording, pb, table
from qwen3_parity.recording.ours.classic import ClassicEncoder, classic_encoder
from qwen3_parity.recording.ours.generation import greedy, next_token_probs, search
from qwen3_parity.recording.ours.inputs import decoder_slots, given_tokens, input_tensor, mask_and_positions, slots
from qwen3_parity.recording.ours.ops import run_op
from qwen3_parity.recording.ours.training import run_training
from qwen3_parity.recording.record import ARITHMETIC, Factory, Tap
from qwen3_parity.recording.request import refuse_exported
from qwen3_reference.binding import attach, emit, encoder_half
from qwen3_reference.capture.recorded_attention import recording_attention
from qwen3_spec.ops import OPS

BACKENDS = {"eager": pb.EAGER, "sdpa": pb.SDPA, "flex": pb.FLEX}
NEVER_MATERIALISED = frozenset(name for name, op in OPS.items() if op.masked)
"""The ops whose outputs a fused attention never has in memory."""
DTYPES = {pb.ARITHMETIC_F32: torch.float32, pb.ARITHMETIC_BF16: torch.bfloat16, pb.ARITHMETIC_F16: torch.float16}
_MERGED = {"layers.{layer}.self_attn": "layers.{layer}.merged_attn"}
_BOTH = ("encoder.", "decoder.", "lm_head.")
_STACKS: dict[pb.Mode, tuple[str, ...]] = {
    pb.ENCODER: ("encoder.",),
    pb.CAUSAL: ("decoder.", "lm_head."),
    pb.ENCODER_DECODER: _BOTH,
    pb.BLOCK: ("{role}.layers.0.",),
}


def used_parameters(case: pb.Case) -> tuple[str, ...]:
    """The parameters that a case uses, by how their names begin."""
    return tuple(begin.format(role=case.checkpoint[0].role) for begin in _STACKS[case.mode])


def _flex(module: nn.Module, *tensors: torch.Tensor, **kwargs: Any) -> Any:
    """HF's flex attention, which reads beyond the end of a mask that is no `BlockMask`."""
    *qkv, mask = tensors
    return ALL_ATTENTION_FUNCTIONS["flex_attention"](module, *qkv, block_mask(mask), **kwargs)


_ATTENTION = {"eager": eager_attention_forward, "sdpa": ALL_ATTENTION_FUNCTIONS["sdpa"], "flex": _flex}


def _scores(query: torch.Tensor, key: torch.Tensor, scaling: float) -> torch.Tensor:
    """The scores by our own code; `repeat_kv` in it is as much under test as the product."""
    return scaled_scores(query, key, scaling, query.shape[1] // key.shape[1])


def _marked(owner: Any, method: str, undo: ExitStack, then: Callable[[Any], None] | None = None) -> None:
    """Have a method of the decoder or of an attention run as the encoder's half; then hand its result to `then`."""
    plain = getattr(owner, method)

    @wraps(plain)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with encoder_half():
            result = plain(*args, **kwargs)
        if then is not None:
            then(result)
        return result

    setattr(owner, method, marked)
    undo.callback(delattr, owner, method)


@contextmanager
def _half(decoder: Any) -> Iterator[None]:
    """Inside, the recorder knows when projections and tables serve the encoder's keys and values."""
    with ExitStack() as undo:
        _marked(decoder, "encoder_position_embeddings", undo)
        for layer in decoder.layers:
            attention = layer.merged_attn
            keep = partial(_encoder_key, attention) if decoder.config.rotate_encoder_keys else None
            _marked(attention, "encoder_keys_values", undo, keep)
        yield


def _encoder_key(attention: nn.Module, keys_values: tuple[torch.Tensor, torch.Tensor]) -> None:
    emit(attention, "encoder_key", keys_values[0])


class EncoderDecoder:
    """A loaded `Qwen3ForSeq2SeqLM` that runs cases; see `record.Runner`."""

    producer = "qwen3_encdec"

    def __init__(self, model: Qwen3ForSeq2SeqLM, backend: str, used: tuple[str, ...] = _BOTH) -> None:
        self.model = model.train(False)
        materialise = backend == "eager"
        name = f"qwen3_parity_{backend}"
        recording_attention(name, _ATTENTION[backend], materialise=materialise, scores=_scores)
        self.model.set_attn_implementation(name)
        patterns = [row.pattern for row in table() if materialise or row.op not in NEVER_MATERIALISED]
        self.run = pb.Run(arithmetic=ARITHMETIC[model.dtype], backend=BACKENDS[backend], materialised=patterns)
        named = model.named_parameters(remove_duplicate=False)
        self.parameters = {name: parameter for name, parameter in named if name.startswith(used)}

    @contextmanager
    def _recorded(self, tap: Tap, step: int, records: Callable[[str], bool], encoder_length: int) -> Iterator[None]:
        def sink(name: str, value: torch.Tensor) -> None:
            tap(name, step, value)

        encoder, decoder = self.model.encoder, self.model.decoder
        decoder_hooks = attach(
            decoder, "decoder", sink, modules=_MERGED, records=records, encoder_length=encoder_length
        )
        with attach(encoder, "encoder", sink, records=records), decoder_hooks, _half(decoder):
            yield

    @torch.no_grad()
    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, records: Callable[[str], bool]) -> None:
        """Run the case: the encoder once, then the decoder in its steps, then generation; or one training step."""
        if case.HasField("training"):
            run_training(self.model, case, inputs, self._whole(case, inputs), self._recorded, tap, records)
            return
        request: dict[str, Any] = {}
        if "input.encoder_attention_mask" in inputs:
            mask, positions = mask_and_positions(inputs, "encoder")
            request = {"attention_mask": mask, "position_ids": positions}
            name, tokens = given_tokens(inputs, "encoder", self.model.dtype)
            with self._recorded(tap, 0, records, 0):
                encoded = self.model.encoder(**{name: tokens}, **request)
        else:  # the decoder with an encoder of length 0
            encoded = self._nothing(case, inputs)
        if not case.steps:
            return
        request["encoder_outputs"] = encoded
        self._decode(case, inputs, request, tap, records)
        if case.HasField("generation"):
            search(self.model, case, inputs, request, tap)
        elif case.max_new_tokens:
            tap("generated_ids", 0, greedy(self.model, case, inputs, request))

    def _whole(self, case: pb.Case, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """The arguments of the model for a run of both stacks in one call."""
        request: dict[str, Any] = {}
        if case.training.HasField("decoder_start_token_id"):  # the model makes its ids from the labels
            self.model.config.decoder_start_token_id = case.training.decoder_start_token_id
        else:
            request["decoder_input_ids"] = input_tensor(inputs, "decoder_input_ids")
        names = ("decoder_attention_mask", "decoder_position_ids")
        request |= dict(zip(names, mask_and_positions(inputs, "decoder"), strict=True))
        if case.mode == pb.CAUSAL:
            return request | {"encoder_outputs": self._nothing(case, inputs)}
        mask, positions = mask_and_positions(inputs, "encoder")
        ids = input_tensor(inputs, "encoder_input_ids")
        return request | {"input_ids": ids, "attention_mask": mask, "position_ids": positions}

    def _nothing(self, case: pb.Case, inputs: Mapping[str, Array]) -> Qwen3EncoderOutput:
        """An encoder of length 0."""
        batch = len(inputs["input.decoder_attention_mask"])
        return Qwen3EncoderOutput(torch.zeros(batch, 0, case.config.hidden_size, dtype=self.model.dtype))

    def _decode(
        self,
        case: pb.Case,
        inputs: Mapping[str, Array],
        request: Mapping[str, Any],
        tap: Tap,
        records: Callable[[str], bool],
    ) -> None:
        """The decoder's forwards, one for each step, on one cache."""
        (name, tokens), cache = given_tokens(inputs, "decoder", self.model.dtype), None
        mask, positions = mask_and_positions(inputs, "decoder")
        length = request["encoder_outputs"].last_hidden_state.shape[1]
        probs = next_token_probs(self.model, case, inputs)
        for step, (start, stop) in enumerate(pairwise(accumulate(case.steps, initial=0))):
            with self._recorded(tap, step, records, length):
                result = self.model(
                    **request,
                    **{f"decoder_{name}": tokens[:, start:stop]},
                    decoder_attention_mask=decoder_slots(inputs, mask, start, stop),
                    decoder_position_ids=slots(positions, start, stop),
                    past_key_values=cache,
                    use_cache=True,
                )
            cache = getattr(result, CACHE)
            if records("logits"):
                tap("logits", step, result.logits)
            drawn = probs(step, result.logits)
            if drawn is not None and records("next_token_probs"):
                tap("next_token_probs", step, drawn)


class Operation:
    """Our code for one op alone; see `record.Runner`."""

    producer = "qwen3_encdec"

    def __init__(self, arithmetic: pb.Arithmetic) -> None:
        self.run = pb.Run(arithmetic=arithmetic, backend=pb.EAGER)

    @torch.no_grad()
    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, records: Callable[[str], bool]) -> None:
        """Run the op on the case's inputs."""
        for name, value in run_op(case, inputs, self.run.arithmetic).items():
            tap(name, 0, value)


def encoder_decoder(
    case: pb.Case, checkpoints: Mapping[str, Path], *, backend: str, dtype: torch.dtype
) -> EncoderDecoder | ClassicEncoder | Operation:
    """Our model for a case, from its checkpoint directories by role; a role that is missing takes the other's."""
    if case.mode == pb.OP:
        return Operation(ARITHMETIC[dtype])
    if case.mode == pb.CLASSIC_ENCODER:
        return classic_encoder(case, checkpoints, backend=backend, dtype=dtype)
    if case.mode not in _STACKS:
        raise ParityError(
            case.name,
            "this kind of case has no network to run",
            expected="an encoder, a decoder, both, one layer, a classic encoder, or an op",
            got=pb.Mode.Name(case.mode),
            next_step="choose another case",
        )
    encoder, decoder = (
        checkpoints.get(a) or checkpoints[b] for a, b in (("encoder", "decoder"), ("decoder", "encoder"))
    )
    for directory in (encoder, decoder):
        refuse_exported(directory)
    try:
        model = load_qwen3(decoder, encoder, rotate_encoder_keys=case.config.rotate_encoder_keys, dtype=dtype)
    except ValueError as error:
        raise ParityError(
            case.name,
            "our implementation refuses the checkpoint",
            expected="a Qwen3 or Qwen2 checkpoint",
            got=error,
            next_step="mend the checkpoint",
        ) from None
    return EncoderDecoder(model, backend, used_parameters(case))


def golden_dtype(golden: Recording) -> torch.dtype:
    """The dtype in which a golden's case is run."""
    return DTYPES.get(golden.run.arithmetic, torch.float32)


def factory(backend: str = "eager", dtype: torch.dtype = torch.float32) -> Factory:
    """The factory of our implementation with an attention backend of `BACKENDS` and a dtype."""
    return partial(encoder_decoder, backend=backend, dtype=dtype)
