"""A loud tiny checkpoint of a family, and the inputs of its golden: what hides a mistake in real weights is not there.

Norm weights are far from 1 and biases from 0, two tokens have embeddings that an epsilon shows at, a delta rule has a
head with tiny keys.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zlib import crc32

import torch
from torch import nn

from qwen3_golden import ParityError
from qwen3_golden.whole_folder import whole_folder
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.load import load, model_class
from qwen3_reference.graph.reason import short
from qwen3_reference.graph.request import FEATURES
from qwen3_reference.graph.settings import as_reference
from qwen3_reference.graph.sizes import BINS, FRAMES, VOCABULARY, Settings, candidates, family, other_config
from qwen3_reference.graph.steps import generates, goes_on
from qwen3_reference.quiet import quiet

GOLDEN = "golden.pb"
_QUIET_TOKENS, _QUIET = (5, 9), 1e-3
_LOUD = 4.0
"""How much larger padding's embedding is, which nobody may see."""
_PADDING, _FIRST_ID = 3, 10
_PREFILL, _DECODED = 7, 2
_SAMPLES = 2048


def write_tiny(name: str | Path, folder: str | Path, *, seed: int = 1, floors: bool = True) -> Path:
    """Write a new folder with a tiny checkpoint of a family and its golden, and give the golden's path.

    `name` is a model_type of transformers or the path of a config.json, whose sizes are made small. Raises
    `ParityError` for a family that is not known, does not run or cannot be exported, and for a folder that is there.
    """
    folder = Path(folder)
    with whole_folder(folder) as beside:
        again = _saved(tiny_model(name, seed), beside)
        inputs, steps = tiny_inputs(again, seed)
        capture(
            again,
            inputs,
            beside / GOLDEN,
            steps=steps,
            name=str(again.config.model_type),
            checkpoint=beside,
            floors=floors,
            seed=seed,
            label=folder.resolve().name,
        )
    return folder / GOLDEN


def _saved(model: Any, folder: Path) -> Any:
    """A model as it comes back from a folder that it is written to."""
    with quiet():
        model.save_pretrained(folder)
    again, changed = load(folder), False
    for name, parameter in again.named_parameters():
        before = model.get_parameter(name).data
        if not torch.equal(before, parameter):  # some families clear the row of padding at each load
            before.copy_(parameter)
            changed = True
    if not changed:
        return again
    with quiet():
        model.save_pretrained(folder)
    return load(folder)


def tiny_model(name: str | Path, seed: int = 1, settings: Settings = MappingProxyType({})) -> Any:
    """A small model of a family in float32, loud, drawn from a seed; of several sets of sizes the first that runs.

    `settings` are values of its configuration that stand whatever the sizes are. Raises `ParityError` for a family that
    is not known, reads no text, or runs with none of them.
    """
    refused = list[str]()
    for make in candidates(family(name), settings):
        try:
            with quiet(), torch.random.fork_rng():
                config = make()
                its_class = model_class(config)
                _refuse_no_text(name, its_class, merges=config.is_encoder_decoder)
                model = its_class(config).float().eval().requires_grad_(False)
            loud(model, seed)
            inputs, _ = tiny_inputs(model, seed)
            with as_reference(model):
                model(**inputs)
        except ParityError:
            raise
        except Exception as error:  # each family checks its numbers by itself
            refused.append(f"{type(error).__name__}: {short(error)}")
            continue
        return model
    raise ParityError(
        str(name),
        "no tiny model of this family runs",
        expected="a model that runs with small sizes",
        got=refused[0],
        next_step=f"{other_config(name)}, or write a small checkpoint yourself, and capture it with --model",
    )


def _refuse_no_text(name: str | Path, its_class: Any, *, merges: bool) -> None:
    """Raise for a family that reads images or sound alone, and for one side of an encoder–decoder."""
    names = inspect.signature(its_class.forward).parameters
    if merges and "input_ids" in names and "decoder_input_ids" not in names:
        raise ParityError(
            str(name),
            "one side of this encoder–decoder alone would run",
            expected="a forward that takes decoder_input_ids",
            got=f"{its_class.__name__}, which takes {its_class.main_input_name}",
            next_step="write a small checkpoint yourself, and capture it with --model",
        )
    hears = "decoder_input_ids" in names and its_class.main_input_name in FEATURES
    if not hears and "input_ids" not in names:
        raise ParityError(
            str(name),
            "this family reads no text",
            expected="a forward that takes input_ids, or decoder_input_ids behind what it hears",
            got=f"{its_class.__name__}, which takes {its_class.main_input_name}",
            next_step="give a family that reads text: there are no goldens of images or of sound alone",
        )


def loud(model: nn.Module, seed: int) -> None:
    """Draw every parameter, each from a generator of its own name, and the biases that are buffers."""
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        parameter.data.copy_(_drawn(name, parameter, modules[name.rpartition(".")[0]], seed))
    for name, buffer in model.named_buffers():
        if name.endswith("bias") and buffer.is_floating_point():
            buffer.copy_(_normal(name, buffer.shape, seed) * 0.3)
    for module in modules.values():
        for rows in _one_heads_keys(module):
            rows *= _QUIET


def _drawn(name: str, parameter: torch.Tensor, module: nn.Module, seed: int) -> torch.Tensor:
    noise = _normal(name, parameter.shape, seed)
    if isinstance(module, nn.Embedding):
        noise *= 0.8
        if len(noise) == VOCABULARY:
            noise[list(_QUIET_TOKENS)] *= _QUIET
            noise[0] *= _LOUD
        return noise
    if parameter.ndim > 1:
        inputs = parameter.shape[-2 if getattr(module, "is_transposed", False) and parameter.ndim > 2 else -1]
        return noise * (1.2 / math.sqrt(inputs))
    if name.endswith("weight"):
        spread = torch.erf(noise)
        return torch.where(spread < 0, 0.8 + 0.4 * spread, 1.2 + spread)  # 0.4 to 0.8, and 1.2 to 2.2
    return 0.3 + 0.6 * noise if name.endswith("bias") else 0.6 * noise


def _normal(name: str, shape: torch.Size, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed << 32 | crc32(name.encode()))
    return torch.randn(shape, generator=generator)


def _one_heads_keys(module: nn.Module) -> Iterator[torch.Tensor]:
    """The convolution's weights behind the first head's keys of a delta rule, laid out as query, key, value."""
    width, keys, convolution = (getattr(module, name, None) for name in ("head_k_dim", "key_dim", "conv1d"))
    if isinstance(width, int) and isinstance(keys, int) and isinstance(convolution, nn.Conv1d):
        yield convolution.weight.data[keys : keys + width]


def tiny_inputs(model: Any, seed: int, prefill: int = _PREFILL) -> tuple[dict[str, torch.Tensor], tuple[int, ...]]:
    """Two rows of ids, the first shorter by three and padded, and the query length of each forward.

    What hears has sound for the encoder's ids, without padding.
    Decoders are padded on the left, which is where states do not mind, and decode two tokens behind the prefill.
    """
    generator = torch.Generator().manual_seed(seed)
    whole = prefill + _DECODED

    def ids(length: int) -> torch.Tensor:
        drawn = torch.randint(_FIRST_ID, VOCABULARY, (2, length), generator=generator)
        drawn[:, length // 2], drawn[1, -1] = torch.tensor(_QUIET_TOKENS), _QUIET_TOKENS[0]
        return drawn

    names, config = inspect.signature(model.forward).parameters, model.config
    if model.main_input_name in FEATURES:
        decoded = {"decoder_input_ids": ids(2 + _DECODED)}
        return _sound(model, decoded, generator) | decoded, (2, *[1] * _DECODED)
    inputs = {"input_ids": ids(whole), "attention_mask": torch.ones(2, whole, dtype=torch.long)}
    left = generates(model) and not config.is_encoder_decoder
    padding = (0, slice(0, _PADDING)) if left else (0, slice(whole - _PADDING, whole))
    inputs["input_ids"][padding], inputs["attention_mask"][padding] = 0, 0
    if config.is_encoder_decoder:
        return inputs | {"decoder_input_ids": ids(2 + _DECODED)}, (2, *[1] * _DECODED)
    if left and goes_on(model):
        return inputs, (prefill, *[1] * _DECODED)
    if "token_type_ids" in names and getattr(config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.arange(whole).ge(prefill // 2).long().expand(2, whole).contiguous()
    return inputs, ()


def _sound(model: Any, decoded: dict[str, torch.Tensor], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """What a model hears, of two rows: features with their times behind or in front, else samples, as it takes them."""
    name, features = model.main_input_name, torch.randn(2, BINS, FRAMES, generator=generator)
    for layout in (features, features.mT.contiguous()):
        try:
            with torch.no_grad():
                model(**{name: layout}, **decoded)
        except (RuntimeError, ValueError):
            continue
        return {name: layout}
    return {name: torch.randn(2, _SAMPLES, generator=generator)}
