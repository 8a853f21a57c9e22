"""`torch.export`: the encoder at any length, and one decode step that serves all steps, as programs of their own."""

import io
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from transformers import EncoderDecoderCache, StaticCache
from transformers.integrations.executorch import Seq2SeqLMExportableModule

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


class DecodeStep(nn.Module):
    """One token against a static cache, whose tensors are the program's state."""

    def __init__(self, model: Any, cache: EncoderDecoderCache) -> None:
        super().__init__()
        self.model, self.cache = model, cache
        self.places = [
            (layer, name, f"{half}_{index}_{name}")
            for half, layers in (
                ("own", cache.self_attention_cache.layers),
                ("memory", cache.cross_attention_cache.layers),
            )
            for index, layer in enumerate(layers)
            for name in ("keys", "values", "cumulative_length")
        ]
        for layer, name, buffer in self.places:
            self.register_buffer(buffer, getattr(layer, name).clone())

    def forward(self, token: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Logits `[batch, 1, vocab]`."""
        for layer, name, buffer in self.places:
            setattr(layer, name, getattr(self, buffer))
        output = self.model(None, mask, token, encoder_outputs=(memory,), past_key_values=self.cache)
        logits: torch.Tensor = output.logits
        return logits


def _stored_and_read(program: ExportedProgram) -> Any:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer).module()


@pytest.fixture(params=[pytest.param("eager", marks=pytest.mark.slow), "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(num_hidden_layers=2, attn_implementation=request.param, bos_token_id=3)


@pytest.fixture
def mask() -> torch.Tensor:
    mask = torch.ones(2, 5, dtype=torch.long)
    mask[1, 3:] = 0
    return mask


@torch.no_grad()
def test_an_exported_encoder_has_the_same_numbers_at_other_lengths(model: Any, ids: Any, mask: torch.Tensor) -> None:
    length = {1: Dim("length", min=2, max=64)}
    shapes = {"input_ids": length, "attention_mask": length}
    exported = _stored_and_read(torch.export.export(model.encoder, (ids(2, 5), mask), dynamic_shapes=shapes))
    source, longer = ids(2, 9, seed=2), torch.ones(2, 9, dtype=torch.long)
    longer[0, :3] = 0
    expected = model.encoder(source, longer).last_hidden_state
    torch.testing.assert_close(exported(source, longer).last_hidden_state, expected, **CLOSE)


@pytest.mark.slow
@torch.no_grad()
def test_an_exported_decode_step_goes_on_from_its_own_cache(model: Any, ids: Any, mask: torch.Tensor) -> None:
    target = ids(2, 7, seed=4)
    memory = model.encoder(ids(2, 5), mask).last_hidden_state
    expected = model(None, mask, target, encoder_outputs=(memory,)).logits
    cache = EncoderDecoderCache(
        StaticCache(config=model.config, max_cache_len=9), StaticCache(config=model.config, max_cache_len=5)
    )
    model(None, mask, target[:, :3], encoder_outputs=(memory,), past_key_values=cache)
    program = torch.export.export(DecodeStep(model, cache), (target[:, 3:4], memory, mask))
    exported = _stored_and_read(program)
    steps = [exported(target[:, at : at + 1], memory, mask) for at in range(3, 7)]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected[:, 3:], **CLOSE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects:UserWarning")  # of its own wrapper
def test_transformers_own_exporter_generates_the_same_tokens(model: Any, ids: Any) -> None:
    source = ids(1, 5)
    options = {"batch_size": 1, "max_hidden_seq_length": 32, "max_cache_length": 12}
    exporter = Seq2SeqLMExportableModule(model, **options)
    exporter.export(encoder_input_ids=ids(1, 10), encoder_hidden_states=torch.zeros(1, 10, 40))
    start = torch.zeros(1, 1, dtype=torch.long)  # the exporter starts at id 0
    expected = model.generate(source, decoder_input_ids=start, decoder_start_token_id=0, max_new_tokens=6)
    assert exporter.generate(source, 7) == expected[0].tolist()
