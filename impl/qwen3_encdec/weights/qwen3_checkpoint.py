"""From Qwen3 or Qwen2 checkpoint directories to `Qwen3ForSeq2SeqLM`, every tensor accounted for on both sides."""

from pathlib import Path

import torch
from torch import nn

from qwen3_encdec.config_bounds import check_bounds
from qwen3_encdec.configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from qwen3_encdec.modeling_qwen3_encdec import Qwen3ForSeq2SeqLM

from .files import DTYPES, read_json, read_tensors, stored_tensors
from .mapping import EMBEDDING, STACKS
from .problems import Progress, Source, dtype_problems, name_problems, value_problems
from .sentinel_rows import draw_rows, mean_and_deviation

_FREE_TO_DIFFER = {"tie_word_embeddings", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"}
_COMPARED = [name for name in Qwen3EncoderDecoderConfig.__annotations__ if name not in _FREE_TO_DIFFER]


def unseen(done: int, total: int, message: str) -> None:
    """The progress that nobody looks at."""


def load_qwen3(
    decoder_directory: Path,
    encoder_directory: Path | None = None,
    *,
    rotate_encoder_keys: bool = True,
    num_sentinel_tokens: int = 0,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    progress: Progress = unseen,
) -> Qwen3ForSeq2SeqLM:
    """The encoder–decoder made of one Qwen3 checkpoint, or of two that share their embedding.

    Encoder weights come from `encoder_directory` (default: the same one), decoder weights and the LM head from
    `decoder_directory`. Tensors keep their stored dtype unless `dtype` is given. `num_sentinel_tokens` rows are
    appended to the embedding (and to an untied head), drawn from a fixed seed with the mean and standard deviation of
    the rows that exist. Returns the model in eval mode, on `device`; the source is mapped, never built. Raises one
    `ValueError` naming every tensor that is missing, extra, mis-shaped, not finite or beyond `dtype`, or saying which
    file is broken, which fields differ, or which tied tensors do.
    """
    decoder_directory = Path(decoder_directory)
    encoder_directory = Path(encoder_directory or decoder_directory)
    sources = open_sources(decoder_directory, encoder_directory, num_sentinel_tokens)
    config = sources[-1].config
    config.rotate_encoder_keys = rotate_encoder_keys
    with torch.device("meta"):
        model = Qwen3ForSeq2SeqLM(config)
    refuse(_names_that_do_not_fit(model, sources) + ([] if dtype else dtype_problems(sources)))
    nn.Module.to(model, dtype or DTYPES[sources[-1].stored[EMBEDDING].dtype])
    fill(model, sources, device, progress)
    config.dtype = model.shared.weight.dtype
    model.eval()  # type: ignore[no-untyped-call]
    return model


def open_sources(
    decoder_directory: Path, encoder_directory: Path | None = None, num_sentinel_tokens: int = 0
) -> list[Source]:
    """The checkpoint directories with the stacks that each fills: one for both, or the encoder's and the decoder's.

    `ValueError` when a config or the files of the weights cannot be read, or the two configs differ.
    """
    if encoder_directory in (None, decoder_directory):
        return [_open(decoder_directory, tuple(STACKS), num_sentinel_tokens)]
    assert encoder_directory is not None
    encoder = _open(encoder_directory, ("encoder",), num_sentinel_tokens)
    decoder = _open(decoder_directory, ("decoder",), num_sentinel_tokens)
    differing = [
        f"{name}: {getattr(encoder.config, name)!r} in {encoder_directory}, {getattr(decoder.config, name)!r} in "
        f"{decoder_directory}"
        for name in _COMPARED
        if getattr(encoder.config, name) != getattr(decoder.config, name)
    ]
    if differing:
        raise ValueError("encoder and decoder checkpoints must have one config: " + "; ".join(differing))
    return [encoder, decoder]


def _open(directory: Path, stacks: tuple[str, ...], num_sentinel_tokens: int) -> Source:
    config = read_config(directory, num_sentinel_tokens)
    stored = stored_tensors(directory)
    if config.num_hidden_layers > len(stored):  # before so many layers are built
        refuse([f"num_hidden_layers = {config.num_hidden_layers}, and {directory} holds only {len(stored)} tensors"])
    return Source(directory, stacks, config, stored)


def read_config(directory: Path, num_sentinel_tokens: int) -> Qwen3EncoderDecoderConfig:
    """Ours from a directory's `config.json`; `ValueError` naming the file and what is wrong with it."""
    path = directory / "config.json"
    content = read_json(path)
    try:
        check_bounds(content)
        return Qwen3EncoderDecoderConfig.from_qwen3_config(content, num_sentinel_tokens)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def refuse(problems: list[str]) -> None:
    """One `ValueError` with every problem, when there are any."""
    if problems:
        raise ValueError(
            "the checkpoint does not fit the model:\n  "
            + "\n  ".join(problems)
            + "\nnext: compare config.json with the weights, or download the checkpoint again"
        )


def fill(
    model: Qwen3ForSeq2SeqLM, sources: list[Source], device: str | torch.device = "cpu", progress: Progress = unseen
) -> int:
    """Give every parameter its values; returns how many there are, a tied one counted once.

    Parameters on the meta device are made on `device`, others are written in place, each in its own dtype. `ValueError`
    before anything is written when a tensor or a value does not fit.
    """
    device = _usable(device)
    refuse(_names_that_do_not_fit(model, sources))
    dtypes = {parameter.dtype for parameter in model.parameters()}
    refuse(value_problems(sources, min(dtypes, key=lambda dtype: torch.finfo(dtype).max), progress))
    filled: set[str] = set()
    done, total = 0, sum(len(source.stored) for source in sources)
    for source in sources:
        targets = source.targets()
        for name, tensor in read_tensors(source.stored):
            for target in targets[name]:
                if target not in filled and not _tied_to_another(model, target):
                    _fill(model, target, tensor, device)
                    filled.add(target)
            done += 1
            progress(done, total, f"mapping {name}")
    model.tie_weights()
    for stack in (model.encoder, model.decoder):
        stack.rotary_emb.reset_inv_freq(torch.device("cpu"))  # as Hugging Face: a device's own powers may differ
        stack.rotary_emb.to(model.shared.weight.device)
    return len(filled)


def _usable(device: str | torch.device) -> torch.device:
    try:
        place = torch.device(device)
        torch.empty(1, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device = {str(device)!r} cannot be used ({str(error).splitlines()[0]})") from error
    if place.type == "meta":
        raise ValueError("device = 'meta' holds no values; expected one that weights can be copied to, 'cpu'")
    return place


def _tied_to_another(model: Qwen3ForSeq2SeqLM, target: str) -> bool:
    return target in model.get_expanded_tied_weights_keys()


def _names_that_do_not_fit(model: Qwen3ForSeq2SeqLM, sources: list[Source]) -> list[str]:
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters(remove_duplicate=False)}
    parameters = {name for name in shapes if not _tied_to_another(model, name)}
    mapped = {target for source in sources for targets in source.targets().values() for target in targets}
    problems = [problem for source in sources for problem in name_problems(source, shapes)]
    problems += [
        f"unmapped: {name} {shapes[name]}, the table has no tensor for it" for name in sorted(parameters - mapped)
    ]
    return problems + [f"unmapped: {name}, the model has no such parameter" for name in sorted(mapped - shapes.keys())]


def _fill(model: Qwen3ForSeq2SeqLM, target: str, tensor: torch.Tensor, device: torch.device) -> None:
    """Write `tensor [rows, …]` into a parameter; the rows that it has beyond those are sentinels'."""
    parameter = model.get_parameter(target)
    if parameter.is_meta:
        data = torch.empty_like(parameter, device=device)
        parameter = nn.Parameter(data, requires_grad=parameter.requires_grad)
        module, _, leaf = target.rpartition(".")
        setattr(model.get_submodule(module), leaf, parameter)
    rows = len(tensor)
    with torch.no_grad():
        parameter[:rows].copy_(tensor)
        if rows < len(parameter):
            parameter[rows:].copy_(draw_rows(len(parameter) - rows, tensor.shape[1], *mean_and_deviation(tensor)))
