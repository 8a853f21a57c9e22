"""From Qwen3 or Qwen2 checkpoint directories to `Qwen3ForSeq2SeqLM`, every tensor accounted for on both sides."""

from dataclasses import dataclass
from pathlib import Path

import torch

from .checkpoint_files import read_json, read_tensors, weight_files
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .modeling_qwen3_encdec import Qwen3ForSeq2SeqLM

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_SENTINEL_SEED = 0
_FREE_TO_DIFFER = {"tie_word_embeddings", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"}
_COMPARED = [name for name in Qwen3EncoderDecoderConfig.__annotations__ if name not in _FREE_TO_DIFFER]


@dataclass(frozen=True)
class _Source:
    """One checkpoint directory in one role."""

    directory: Path
    stack: str  # "encoder" or "decoder"
    tied: bool
    files: dict[str, Path]


def target_name(name: str, stack: str) -> str:
    """Our parameter name for HF's `name` when it fills `stack` ("encoder" or "decoder").

    The embedding is shared and the head belongs to the decoder. Any other name is given back under `stack`: whether a
    parameter of that name exists is checked against the model.
    """
    if name == HEAD:
        return HEAD
    if name == EMBEDDING:
        return "shared.weight"
    inner = name.removeprefix("model.")
    if stack == "decoder":
        inner = inner.replace(".self_attn.", ".merged_attn.")
    return f"{stack}.{inner}"


def load_qwen3(
    decoder_directory: Path,
    encoder_directory: Path | None = None,
    *,
    rotate_encoder_keys: bool = True,
    num_sentinel_tokens: int = 0,
    dtype: torch.dtype | None = None,
) -> Qwen3ForSeq2SeqLM:
    """The encoder–decoder made of one Qwen3 checkpoint, or of two that share their embedding.

    Encoder weights come from `encoder_directory` (default: the same one), decoder weights and the LM head from
    `decoder_directory`. Tensors keep their stored dtype unless `dtype` is given. `num_sentinel_tokens` rows are
    appended to the embedding (and to an untied head), drawn from a fixed seed with the mean and standard deviation of
    the rows that exist. Returns the model in eval mode. Raises one `ValueError` naming every tensor that is missing,
    extra or mis-shaped, or saying which file is broken, which fields differ, or which tied tensors do.
    """
    decoder_directory = Path(decoder_directory)
    encoder_directory = Path(encoder_directory or decoder_directory)
    config = _read_config(decoder_directory, num_sentinel_tokens)
    encoder_config = _read_config(encoder_directory, num_sentinel_tokens)
    _check_same_sizes(encoder_config, encoder_directory, config, decoder_directory)
    config.rotate_encoder_keys = rotate_encoder_keys
    sources = [
        _Source(encoder_directory, "encoder", encoder_config.tie_word_embeddings, weight_files(encoder_directory)),
        _Source(decoder_directory, "decoder", config.tie_word_embeddings, weight_files(decoder_directory)),
    ]
    with torch.device("meta"):
        model = Qwen3ForSeq2SeqLM(config)
    state = _collect(model, sources, num_sentinel_tokens, dtype)
    state |= {name: state[source] for name, source in model.get_expanded_tied_weights_keys().items()}
    model.load_state_dict(state, strict=True, assign=True)
    model.tie_weights()
    for stack in (model.encoder, model.decoder):
        stack.rotary_emb.reset_inv_freq(torch.device("cpu"))
    config.dtype = model.shared.weight.dtype
    model.eval()  # type: ignore[no-untyped-call]
    return model


def _read_config(directory: Path, num_sentinel_tokens: int) -> Qwen3EncoderDecoderConfig:
    path = directory / "config.json"
    content = read_json(path)
    try:
        return Qwen3EncoderDecoderConfig.from_qwen3_config(content, num_sentinel_tokens)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _check_same_sizes(
    encoder: Qwen3EncoderDecoderConfig,
    encoder_directory: Path,
    decoder: Qwen3EncoderDecoderConfig,
    decoder_directory: Path,
) -> None:
    differing = [
        f"{name}: {getattr(encoder, name)!r} in {encoder_directory}, {getattr(decoder, name)!r} in {decoder_directory}"
        for name in _COMPARED
        if getattr(encoder, name) != getattr(decoder, name)
    ]
    if differing:
        raise ValueError("encoder and decoder checkpoints must have one config: " + "; ".join(differing))


def _collect(
    model: Qwen3ForSeq2SeqLM, sources: list[_Source], num_sentinel_tokens: int, dtype: torch.dtype | None
) -> dict[str, torch.Tensor]:
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    rows = model.config.vocab_size - num_sentinel_tokens
    state: dict[str, torch.Tensor] = {}
    problems: list[str] = []
    for source in sources:
        shapes = {name: shape for name, shape in expected.items() if name.startswith(f"{source.stack}.")}
        shapes["shared.weight"] = (rows, model.config.hidden_size)
        if HEAD in source.files or not source.tied:
            shapes[HEAD] = (rows, model.config.hidden_size)
        problems += _missing(source, shapes)
        tensors: dict[str, torch.Tensor] = {}
        for name, tensor in read_tensors(source.files):
            target = target_name(name, source.stack)
            where = f"{source.files[name]}: {name}"
            if target not in shapes:
                problems.append(f"extra: {where} {tuple(tensor.shape)}, expected no such tensor")
            elif tuple(tensor.shape) != shapes[target]:
                problems.append(f"mis-shaped: {where}, expected {shapes[target]}, got {tuple(tensor.shape)}")
            elif not tensor.is_floating_point():
                problems.append(f"wrong dtype: {where}, expected floating point, got {tensor.dtype}")
            else:
                tensors[target] = tensor
        problems += _head_problems(source, tensors)
        problems += _take(source, tensors, state, dtype)
    problems += _dtype_problems(state)
    if problems:
        raise ValueError(
            "the checkpoint does not fit the model:\n  "
            + "\n  ".join(problems)
            + "\nnext: compare config.json with the weights, or download the checkpoint again"
        )
    if num_sentinel_tokens:
        for name in ("shared.weight", HEAD):
            if name in state:
                state[name] = _extended(state[name], num_sentinel_tokens)
    return state


def _missing(source: _Source, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    stored = {target_name(name, source.stack) for name in source.files}
    return [
        f"missing: {source.directory}: {_source_name(target)}, expected {shape}"
        for target, shape in shapes.items()
        if target not in stored
    ]


def _source_name(target: str) -> str:
    if target in ("shared.weight", HEAD):
        return EMBEDDING if target == "shared.weight" else HEAD
    return "model." + target.split(".", 1)[1].replace(".merged_attn.", ".self_attn.")


def _head_problems(source: _Source, tensors: dict[str, torch.Tensor]) -> list[str]:
    if not (source.tied and HEAD in tensors and "shared.weight" in tensors):
        return []
    if _same_bits(tensors[HEAD], tensors["shared.weight"]):
        return []
    return [
        f"different: {source.files[HEAD]}: {HEAD} differs from {EMBEDDING} although tie_word_embeddings is true; "
        "set it to false to keep both"
    ]


def _take(
    source: _Source, tensors: dict[str, torch.Tensor], state: dict[str, torch.Tensor], dtype: torch.dtype | None
) -> list[str]:
    """Move a source's tensors into `state`; the second embedding must be the first one again."""
    problems = []
    for target, tensor in tensors.items():
        if target == HEAD and (source.stack == "encoder" or source.tied):
            continue  # checked above; the head in use is the decoder's, or the shared matrix
        copied = tensor.to(dtype or tensor.dtype, copy=True)  # a copy: the two stacks must not share storage
        if target == "shared.weight" and target in state:
            if not _same_bits(copied, state[target]):
                problems.append(
                    f"different: {source.files[EMBEDDING]}: {EMBEDDING} differs from the encoder checkpoint's; "
                    "both stacks share one matrix, so the two must be equal bit for bit"
                )
            continue
        state[target] = copied
    return problems


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return torch.equal(first.contiguous().view(torch.uint8), second.contiguous().view(torch.uint8))


def _dtype_problems(state: dict[str, torch.Tensor]) -> list[str]:
    dtypes = sorted({str(tensor.dtype) for tensor in state.values()})
    return [f"mixed dtypes: {', '.join(dtypes)}; pass dtype= to choose one"] if len(dtypes) > 1 else []


def _extended(matrix: torch.Tensor, count: int) -> torch.Tensor:
    wide = matrix.float()  # statistics of bfloat16 rows would be sums of a few significant bits
    generator = torch.Generator().manual_seed(_SENTINEL_SEED)
    rows = torch.randn(count, matrix.shape[1], generator=generator) * wide.std() + wide.mean()
    return torch.cat((matrix, rows.to(matrix.dtype)))
