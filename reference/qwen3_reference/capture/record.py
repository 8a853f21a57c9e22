"""Recording Hugging Face: a user's request on a checkpoint of their own, and the reference's own cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from qwen3_golden import pb
from qwen3_reference.capture.generation import FreeRun, free_run
from qwen3_reference.capture.make_golden import PLAIN, Request, Way, make_golden
from qwen3_reference.capture.models import Loader, Reference, load_in_memory, load_reference
from qwen3_reference.capture.run import Inputs, run_reference
from qwen3_reference.cases.networks import CaseDefinition, case, inputs
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.sizes import PAD_ID
from qwen3_reference.checkpoints.weights import checkpoint_message, load_weights
from qwen3_reference.torch_tensors import DTYPES

_TORCH = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def record_request(
    encoder_directory: str | Path | None,
    decoder_directory: str | Path | None,
    inputs: Inputs,
    steps: Sequence[int],
    path: str | Path,
    *,
    taps: Sequence[str] = (),
    rows: int = 0,
    dtype: torch.dtype = torch.float32,
    floors: bool = True,
    rotate_encoder_keys: bool = True,
    max_new_tokens: int = 0,
    generation: pb.Generation | None = None,
    name: str = "",
    description: str = "",
    labels: Sequence[str] = (),
    load: Loader = load_in_memory,
    way: Way = PLAIN,
) -> None:
    """Record Hugging Face on somebody's own checkpoint and inputs; a Qwen3 checkpoint may be both roles at once.

    `inputs` are `input.*` arrays by name, int64 ids and positions and bool masks `[batch, length]`; `steps` the
    decoder's query lengths, empty without a decoder; `taps` globs, empty = every tap; `rows` how many of the last query
    positions each step keeps, 0 = all; `labels` names for the checkpoints in messages, the folders' names by default.
    With `generation`, `steps` are the prompt's, and `max_new_tokens` are chosen and fed behind it, one a step.
    `floors=False` leaves the noise floors out: they cost four runs in NumPy. `load` brings the weights into the models.
    A run that is interrupted is gone on with by the same call; until then its finished layers lie in a folder beside
    `path` (`work_folder`). Raises `ParityError` for a checkpoint that cannot be used, and for a name at which another
    request was interrupted.
    """
    code = DTYPES[dtype]
    roles = [(role, d) for role, d in (("encoder", encoder_directory), ("decoder", decoder_directory)) if d is not None]
    weights = load_weights(encoder_directory, decoder_directory, code)
    modes = {("encoder",): pb.ENCODER, ("decoder",): pb.CAUSAL, ("encoder", "decoder"): pb.ENCODER_DECODER}
    names = labels or [Path(directory).resolve().name for _, directory in roles]
    message = pb.Case(
        name=name or f"capture/{Path(path).stem}",
        mode=modes[tuple(role for role, _ in roles)],
        config=model_config(roles[-1][1], rotate_encoder_keys=rotate_encoder_keys),
        checkpoint=[checkpoint_message(role, d, label) for (role, d), label in zip(roles, names, strict=True)],
        steps=steps,
        description=description,
        max_new_tokens=max_new_tokens,
        taps=taps,
        rows=rows,
    )

    def models() -> Reference:
        way.progress("loading")
        return load_reference(
            encoder_directory, decoder_directory, dtype=dtype, rotate_encoder_keys=rotate_encoder_keys, load=load
        )

    free = None if generation is None else _freely(models, message, inputs, generation)
    request = Request(free.inputs if free else inputs, message, weights, models, free=free)
    make_golden(request, Path(path), way, floors=floors)


def _freely(
    models: Callable[[], Reference], message: pb.Case, prompt: Inputs, settings: pb.Generation, seed: int = 0
) -> FreeRun:
    """The run that chooses the tokens; the case is given its settings and the steps that come of it."""
    message.generation.CopyFrom(settings)
    message.generation.prompt_length = sum(message.steps)
    free = free_run(models(), prompt, message.steps, message.generation, message.max_new_tokens, seed)
    message.steps[:] = free.steps
    return free


def record(definition: CaseDefinition, checkpoints: Path, path: Path) -> None:
    """Record one of the reference's cases from the checkpoints in `checkpoints`, with floors."""
    dtype = _TORCH[definition.dtype]
    encoder = checkpoints / definition.encoder if definition.encoder else None
    decoder = checkpoints / definition.decoder if definition.decoder else None
    main = decoder if decoder is not None else encoder
    assert main is not None
    config = model_config(main, rotate_encoder_keys=definition.rotate_encoder_keys)

    def models() -> Reference:
        rotated = definition.rotate_encoder_keys
        reference = load_reference(encoder, decoder, dtype=dtype, rotate_encoder_keys=rotated)
        if definition.after:
            before = case(definition.after)
            run_reference(reference, inputs(before, config.vocab_size), before.steps, lambda *_: None, lambda _: False)
        return reference

    roles = (("encoder", encoder), ("decoder", decoder))
    message = pb.Case(
        name=definition.name,
        tier=definition.tier,
        mode=definition.mode,
        config=config,
        checkpoint=[checkpoint_message(role, d, d.name) for role, d in roles if d is not None],
        steps=definition.steps,
        after=definition.after,
        exposes=definition.exposes,
        description=definition.description,
        max_new_tokens=definition.max_new_tokens,
        taps=definition.taps,
        rows=definition.rows,
    )
    if definition.training:
        message.training.padding_idx = PAD_ID
        if definition.decoder_start_token_id is not None:
            message.training.decoder_start_token_id = definition.decoder_start_token_id
    weights = load_weights(encoder, decoder, DTYPES[dtype])
    arrays, free = inputs(definition, config.vocab_size, config.hidden_size), None
    if definition.generation is not None:
        free = _freely(models, message, arrays, definition.generation, definition.seed)
        arrays = free.inputs
    request = Request(arrays, message, weights, models, definition.seed, free)
    make_golden(request, path, PLAIN, floors=True)
