"""Which class of transformers runs a configuration, and a checkpoint's model by it; nothing comes from a network."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import transformers
from transformers import AutoConfig
from transformers.models.auto import modeling_auto

from qwen3_golden import ParityError
from qwen3_reference.checkpoints.stored import read_config
from qwen3_reference.graph.reason import short
from qwen3_reference.quiet import quiet
from qwen3_reference.versions import refuse_unsupported

_HEADS = (
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", True),
    ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING", True),
    ("MODEL_FOR_MASKED_LM_MAPPING", False),
    ("MODEL_FOR_CAUSAL_LM_MAPPING", False),
)
"""Where a configuration's class is looked up, in order; whether that is for encoder–decoders alone."""


def model_class(config: Any) -> Any:
    """The class that a configuration names, else the one with a head that transformers has for it, else the bare stack.

    Raises `ParityError` for a configuration that transformers has no model for.
    """
    parts = _of_its_file(config)
    for name in getattr(config, "architectures", None) or ():
        if isinstance(named := getattr(transformers, name, parts.get(name)), type):
            return named
    for table, merges in _HEADS:
        mapping = getattr(modeling_auto, table)
        if type(config) in mapping and bool(config.is_encoder_decoder) == merges:
            return mapping[type(config)]
    kind = type(config).__name__.removesuffix("Config").removesuffix("Text")
    named = getattr(transformers, f"{kind}ForCausalLM", None)
    if getattr(named, "config_class", None) is type(config):
        return named  # of a part that transformers has no table for, as Mllama's text
    mapping = modeling_auto.MODEL_MAPPING
    bare: Any = mapping.get(type(config), None)
    if bare is not None and (not parts or bare.config_class is type(config)):
        return bare  # and not the decoder of a whole, as MusicGen's
    if parts:
        return parts[max(parts, key=_with_head)]
    raise ParityError(
        f"model_type {getattr(config, 'model_type', '')!a}",
        "transformers has no model for this configuration",
        expected="a causal language model, an encoder or an encoder–decoder",
        got=type(config).__name__,
        next_step="give another model",
    )


def reads(config: Any, setting: str) -> bool:
    """Whether the source of a configuration's models has a word, as the name of a setting that may be left to it."""
    file = _file_of(config)
    return file is not None and setting in inspect.getsource(file)


def _file_of(config: Any) -> ModuleType | None:
    """The file of transformers that has a configuration's models."""
    try:
        return import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return None


def _of_its_file(config: Any) -> dict[str, type]:
    """The models that a configuration's own file of transformers has for it, by name: parts of larger ones, often."""
    file = _file_of(config)
    return {
        name: part
        for name, part in ({} if file is None else vars(file)).items()
        if isinstance(part, type) and issubclass(part, transformers.PreTrainedModel)
        if part.config_class is type(config) and not name.endswith("PreTrainedModel")
    }


def _with_head(name: str) -> bool:
    return name.endswith(("ForCausalLM", "LMHeadModel"))


def text_config(config: Any) -> Any:
    """The part of a configuration that reads text, where another part sees or hears."""
    return config if config.is_encoder_decoder else config.get_text_config()


def is_causal(config: Any) -> bool:
    """Whether a configuration is that of a decoder alone, whose texts are padded on the left."""
    tables = (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING)
    return [type(config) in table for table in tables] == [True, False] and not config.is_encoder_decoder


def load(directory: str | Path, dtype: torch.dtype = torch.float32, *, bare: bool = False) -> Any:
    """The model of a local Hugging Face directory, in eval mode; `bare`: its stack without a head.

    Raises `ParityError` where it cannot be loaded, and with older libraries.
    """
    refuse_unsupported()
    directory = Path(directory)
    read_config(directory, of_any_family=True)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
            its_class: Any = modeling_auto.MODEL_MAPPING[type(config)] if bare else model_class(config)
            model, report = its_class.from_pretrained(
                directory,
                config=config,
                dtype=dtype,
                local_files_only=True,
                output_loading_info=True,
                use_safetensors=True,
            )
    except ParityError:
        raise
    except Exception as error:  # Hugging Face raises whatever it comes by
        got = f"{type(error).__name__}: {short(error)}"
        raise _broken(directory, "transformers cannot load this checkpoint", "a model that it knows", got) from error
    if missing := sorted(report["missing_keys"]):
        raise _broken(directory, "the checkpoint lacks weights of the model", "every weight", ", ".join(missing[:3]))
    return _unsaved_fixed(model.eval().requires_grad_(False))


def _unsaved_fixed(model: Any) -> Any:
    """The same model with parameters that no checkpoint has, as Marian's sinusoids, as buffers, which a graph holds."""
    for name in sorted(model._keys_to_ignore_on_save or ()):
        path, _, leaf = name.rpartition(".")
        module, value = model.get_submodule(path), model.get_parameter(name).data
        delattr(module, leaf)
        module.register_buffer(leaf, value, persistent=False)
    return model


def _broken(directory: Path, rule: str, expected: str, got: str) -> ParityError:
    return ParityError(directory, rule, expected=expected, got=got, next_step="check config.json and the weights")
