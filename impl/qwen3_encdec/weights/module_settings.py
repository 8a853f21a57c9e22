"""Does a model compute with what its checkpoint's config says: the fields, and what each module has made of them?"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_utils import PreTrainedModel

from qwen3_encdec.configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from qwen3_encdec.pretrained import build_rotary

from .fault import WeightFault
from .row_blocks import same_bits

_CHOSEN_BY_THE_USER = {"use_cache", "rotate_encoder_keys"}
_SWITCHED_BY_THE_USER = {"training", "gradient_checkpointing"}
_NO_SETTINGS = (nn.Module, torch.Tensor, PreTrainedConfig)


def setting_faults(model: nn.Module, expected: nn.Module, config: Qwen3EncoderDecoderConfig) -> Iterator[WeightFault]:
    """Everything but weights in which `model` differs from `expected`, a model of `config` on the meta device."""
    yield from _field_faults(model, config)
    for name, theirs in expected.named_modules():
        try:
            ours = model.get_submodule(name)
        except AttributeError:
            yield _fault(name, "not in the model")
            continue
        if type(ours) is not type(theirs):
            yield _fault(name, f"is a {type(ours).__name__}, expected a {type(theirs).__name__}")
        elif not isinstance(theirs, PreTrainedModel):  # transformers' own attributes say nothing about the network
            yield from _attribute_faults(name, ours, theirs)
    for stack in ("encoder", "decoder"):
        yield from _frequency_faults(f"{stack}.rotary_emb", model, config)
    yield from _dtype_faults(model)


def _field_faults(model: nn.Module, config: Qwen3EncoderDecoderConfig) -> Iterator[WeightFault]:
    """Fields of every config object in the model that are not the checkpoint's."""
    configs: dict[int, tuple[str, Any]] = {}
    for name, module in model.named_modules():
        if (module_config := getattr(module, "config", None)) is not None:
            configs.setdefault(id(module_config), (f"{name}.config" if name else "config", module_config))
    for where, module_config in configs.values():
        for field in Qwen3EncoderDecoderConfig.__annotations__:
            got, expected = getattr(module_config, field, None), getattr(config, field)
            if got != expected and field not in _CHOSEN_BY_THE_USER and not field.startswith("_"):
                yield _fault(f"{where}.{field}", f"is {got!r}, the checkpoint's config gives {expected!r}")


def _attribute_faults(name: str, ours: nn.Module, theirs: nn.Module) -> Iterator[WeightFault]:
    for attribute, expected in vars(theirs).items():
        if attribute.startswith("_") or attribute in _SWITCHED_BY_THE_USER:
            continue
        if isinstance(expected, _NO_SETTINGS) or callable(expected):
            continue
        got = getattr(ours, attribute, None)
        if got != expected:
            yield _fault(f"{name}.{attribute}", f"is {got!r}, the checkpoint's config gives {expected!r}")


def _frequency_faults(name: str, model: nn.Module, config: Qwen3EncoderDecoderConfig) -> Iterator[WeightFault]:
    """The frequencies are in no checkpoint: a model built on the meta device, or cast, may have any."""
    try:
        rotary = model.get_submodule(name)
    except AttributeError:
        return  # said already
    frequencies = getattr(rotary, "inv_freq", None)
    if not isinstance(frequencies, torch.Tensor) or frequencies.is_meta:
        yield _fault(f"{name}.inv_freq", "on the meta device: never filled")
        return
    expected = build_rotary(config)
    if not same_bits(frequencies, expected.inv_freq):
        actual_text, expected_text = (
            ", ".join(f"{value:.7g}" for value in values.flatten()[:3].tolist())
            for values in (frequencies, expected.inv_freq)
        )
        yield _fault(f"{name}.inv_freq", f"begins with {actual_text}; the checkpoint's config gives {expected_text}")


def _dtype_faults(model: nn.Module) -> Iterator[WeightFault]:
    parameters = list(model.named_parameters())
    usual = parameters[0][1].dtype if parameters else torch.float32
    for name, parameter in parameters:
        if parameter.dtype != usual:
            yield _fault(name, f"is {parameter.dtype} in a model of {usual}")


def _fault(name: str, says: str) -> WeightFault:
    return WeightFault(name, "config.json", "config_matches", says)
