"""The reference with its weights on the disk: the bits of the ordinary way, and nothing kept of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from qwen3_golden import Array, ParityError, pb, read
from qwen3_reference.capture.models import load_in_memory, load_reference
from qwen3_reference.capture.record import record_request
from qwen3_reference.capture.run import run_reference
from qwen3_reference.capture.streamed import as_torch, load_streamed
from qwen3_reference.cases.networks import case, inputs
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.stored import Stored, read_directory
from qwen3_reference.checkpoints.weights import load_weights
from qwen3_reference.checkpoints.widened import Widened

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def digests(name: str, checkpoints: Path, path: Path, load: Callable[..., object], dtype: str) -> dict[object, bytes]:
    """Tap and step -> SHA-256 of a case recorded by one way of loading."""
    definition = case(name)
    folders = [checkpoints / role if role else None for role in (definition.encoder, definition.decoder)]
    config = model_config(folders[1] or folders[0])
    record_request(
        *folders,
        inputs(definition, config.vocab_size),
        definition.steps,
        path,
        dtype=DTYPES[dtype],
        floors=False,
        rotate_encoder_keys=definition.rotate_encoder_keys,
        max_new_tokens=definition.max_new_tokens,
        load=load,
    )
    return {item.key: bytes(item.info.sha256) for item in read(path)}


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    ["encoder/ragged", "decoder/window_chunks", "encdec/ragged", "encdec/unrotated", "encdec/window", "encdec/qwen2"],
)
def test_a_streamed_model_gives_every_tap_bit_for_bit(name: str, dtype: str, checkpoints: Path, tmp_path: Path) -> None:
    ordinary = digests(name, checkpoints, tmp_path / "a.pb", load_in_memory, dtype)
    assert len(ordinary) > 70
    assert digests(name, checkpoints, tmp_path / "b.pb", load_streamed, dtype) == ordinary


@pytest.mark.parametrize("name", ["encoder/ragged", "encdec/ragged"])
def test_no_weight_is_in_a_streamed_model_before_or_after_a_run(name: str, checkpoints: Path) -> None:
    definition = case(name)
    folders = [checkpoints / role if role else None for role in (definition.encoder, definition.decoder)]
    reference = load_reference(*folders, load=load_streamed)
    models = [model for model in (reference.encoder, reference.decoder) if model is not None]

    def devices() -> set[str]:
        return {parameter.device.type for model in models for parameter in model.parameters()}

    assert devices() == {"meta"}
    assert all(buffer.device.type == "cpu" for model in models for buffer in model.buffers())
    given = inputs(definition, model_config(folders[0]).vocab_size)
    run_reference(reference, given, definition.steps, lambda *_: None)
    assert devices() == {"meta"}


def test_one_module_at_a_time_has_its_weights(checkpoints: Path) -> None:
    reference = load_reference(checkpoints / "tied-encoder", None, load=load_streamed)
    present: list[set[str]] = []

    def look(*_: object) -> None:
        named = reference.encoder.named_parameters()
        present.append({name for name, parameter in named if parameter.device.type == "cpu"})

    for layer in reference.encoder.layers:
        layer.mlp.up_proj.register_forward_pre_hook(look)
        layer.mlp.down_proj.register_forward_hook(look)
    definition = case("encoder/ragged")
    run_reference(reference, inputs(definition, reference.encoder.config.vocab_size), (), lambda *_: None)
    assert present and all(len(names) <= 1 for names in present)


def test_a_weight_of_the_models_dtype_is_the_mapped_file_itself(checkpoints: Path) -> None:
    for stored in read_directory(checkpoints / "bfloat16").values():
        value = as_torch(stored)
        assert value.dtype == torch.bfloat16
        assert value.data_ptr() == stored.bits.ctypes.data or not stored.bits.flags.aligned


def logits(directory: Path, path: Path, load: Callable[..., object]) -> Array:
    """The logits of a prompt of three tokens."""
    given = inputs(case("decoder/ragged_decode"), model_config(directory).vocab_size)
    record_request(None, directory, given, (3,), path, taps=("logits",), floors=False, load=load)
    return read(path)["logits", 0].array.copy()


def test_a_tied_head_that_is_not_stored_is_the_embedding(checkpoints: Path, tmp_path: Path) -> None:
    whole, headless = checkpoints / "tied-decoder", tmp_path / "headless"
    headless.mkdir()
    tensors = load_file(whole / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, headless / "model.safetensors")
    (headless / "config.json").write_text((whole / "config.json").read_text())
    expected = logits(whole, tmp_path / "a.pb", load_in_memory)
    assert np.array_equal(logits(headless, tmp_path / "b.pb", load_streamed), expected)


def test_a_checkpoint_in_several_files_is_streamed(checkpoints: Path, tmp_path: Path) -> None:
    whole, cut = checkpoints / "tied-decoder", tmp_path / "cut"
    cut.mkdir()
    tensors = load_file(whole / "model.safetensors")
    names = sorted(tensors)
    files = {name: f"model-{index % 3}.safetensors" for index, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, cut / file)
    (cut / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    (cut / "config.json").write_text((whole / "config.json").read_text())
    expected = logits(whole, tmp_path / "a.pb", load_in_memory)
    assert np.array_equal(logits(cut, tmp_path / "b.pb", load_streamed), expected)


def stored_as(dtype: pb.DType, values: Array) -> Stored:
    """A tensor as if it were in a file."""
    bits = Stored(pb.F32, values, Path("x")).loaded(dtype)
    return Stored(dtype, bits, Path("x"))


@pytest.mark.parametrize("held", [pb.F32, pb.BF16, pb.F16])
@pytest.mark.parametrize("dtype", [pb.F32, pb.BF16, pb.F16])
def test_a_widened_matrix_is_what_the_model_holds_in_float32(dtype: pb.DType, held: pb.DType) -> None:
    values = np.random.default_rng(1).standard_normal((7, 5)).astype(np.float32)
    stored = stored_as(dtype, values)
    expected = Stored(held, stored.loaded(held), stored.file).float32()
    widened = Widened(stored, held)
    assert (widened.shape, widened.ndim, widened.size, widened.dtype) == ((7, 5), 2, 35, np.float32)
    assert np.array_equal(np.asarray(widened), expected)
    assert np.array_equal(widened[2:4].T, expected[2:4].T)
    assert np.array_equal(widened[np.array([[6, 0]])], expected[[[6, 0]]])
    assert np.array_equal(widened.T, expected.T) and np.array_equal(-widened, -expected)
    assert np.array_equal(expected @ widened.T, expected @ expected.T)
    assert np.array_equal(np.float32(2) * widened, 2 * expected)


def test_a_block_of_a_widened_matrix_is_made_without_the_rest() -> None:
    class Watched(np.ndarray):
        """An array that counts the elements that are taken out of it."""

        taken = 0

        def __getitem__(self, index: object) -> object:
            part = np.asarray(self).__getitem__(index)  # type: ignore[call-overload]
            Watched.taken += part.size
            return part

    bits = np.zeros((1000, 8), np.uint16).view(Watched)
    widened = Widened(Stored(pb.BF16, bits, Path("x")), pb.BF16)
    assert widened[5:7].shape == (2, 8) and Watched.taken == 16


def test_weights_widen_matrices_alone_on_demand(checkpoints: Path) -> None:
    weights = load_weights(None, checkpoints / "bfloat16", pb.BF16)
    assert isinstance(weights["lm_head.weight"], Widened)
    assert isinstance(weights["decoder.norm.weight"], np.ndarray)
    plain = load_weights(None, checkpoints / "tied-decoder")
    assert isinstance(plain["lm_head.weight"], np.ndarray)


def test_a_damaged_checkpoint_is_refused_before_it_is_streamed(checkpoints: Path, tmp_path: Path) -> None:
    tensors = load_file(checkpoints / "tied-decoder" / "model.safetensors")
    del tensors["model.layers.1.self_attn.k_norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((checkpoints / "tied-decoder" / "config.json").read_text())
    given = inputs(case("decoder/ragged_decode"), model_config(tmp_path).vocab_size)
    with pytest.raises(ParityError, match="k_norm"):
        record_request(None, tmp_path, given, (1,), tmp_path / "x.pb", load=load_streamed)
