"""`torch.compile(fullgraph=True)`: encoder, prefill and decode are one graph each, and one graph serves every step."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import CompileConfig, EncoderDecoderCache, StaticCache

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, in its compiler

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
COMPILERS = ["eager", pytest.param("inductor", marks=pytest.mark.slow)]  # the first captures graphs and runs them as is


@pytest.fixture(autouse=True)
def _no_graphs_left_over() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(params=[pytest.param("eager", marks=pytest.mark.slow), "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(num_hidden_layers=2, attn_implementation=request.param)


@pytest.fixture
def source(ids: Any) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(2, 5, dtype=torch.long)
    mask[1, 3:] = 0
    return ids(2, 5), mask


def _static_cache(model: Any) -> EncoderDecoderCache:
    return EncoderDecoderCache(
        StaticCache(config=model.config, max_cache_len=9), StaticCache(config=model.config, max_cache_len=5)
    )


@pytest.mark.parametrize("compiler", COMPILERS)
@torch.no_grad()
def test_a_compiled_encoder_is_one_graph_with_the_same_numbers(model: Any, source: Any, compiler: str) -> None:
    compiled = torch.compile(model.encoder, fullgraph=True, backend=compiler)
    for mask in (source[1], None):
        expected = model.encoder(source[0], mask).last_hidden_state
        torch.testing.assert_close(compiled(source[0], mask).last_hidden_state, expected, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@torch.no_grad()
def test_compiled_prefill_and_decode_are_a_graph_each_for_all_steps(
    model: Any, source: Any, ids: Any, compiler: str
) -> None:
    target, mask = ids(2, 8, seed=4), source[1]
    memory = model.encoder(*source).last_hidden_state
    expected = model(None, mask, target, encoder_outputs=(memory,)).logits
    compiled = torch.compile(model, fullgraph=True, backend=compiler)
    cache = _static_cache(model)

    def step(first: int, last: int) -> torch.Tensor:
        part = target[:, first:last]
        logits: torch.Tensor = compiled(None, mask, part, encoder_outputs=(memory,), past_key_values=cache).logits
        return logits

    logits = [step(0, 3), step(3, 4)]
    with torch.compiler.set_stance("fail_on_recompile"):
        logits += [step(at, at + 1) for at in range(4, 8)]
    torch.testing.assert_close(torch.cat(logits, dim=1), expected, **CLOSE)
    assert int(cache.get_seq_length()) == 8


@pytest.mark.parametrize("compiler", COMPILERS)
@torch.no_grad()
@pytest.mark.slow  # two programs are compiled
def test_a_windowed_static_cache_is_compiled_and_runs_past_its_window(
    make_model: Any, source: Any, ids: Any, compiler: str
) -> None:
    windowed = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3}
    model = make_model(num_hidden_layers=2, attn_implementation="sdpa", **windowed)
    target, mask = ids(2, 9, seed=4), source[1]
    memory = model.encoder(*source).last_hidden_state
    expected = model(None, mask, target, encoder_outputs=(memory,)).logits
    compiled = torch.compile(model, fullgraph=True, backend=compiler)
    full = type(model.config).from_dict(
        model.config.to_dict() | {"layer_types": ["full_attention"] * 2, "sliding_window": None}
    )
    cache = EncoderDecoderCache(
        StaticCache(config=model.config, max_cache_len=9), StaticCache(config=full, max_cache_len=5)
    )
    logits = [
        compiled(None, mask, part, encoder_outputs=(memory,), past_key_values=cache).logits
        for part in target.split([2, *[1] * 7], dim=1)
    ]
    torch.testing.assert_close(torch.cat(logits, dim=1), expected, **CLOSE)


@pytest.mark.slow
@torch.no_grad()
def test_a_compiled_step_counts_positions_from_a_mask_as_the_plain_one_does(model: Any, source: Any, ids: Any) -> None:
    target, mask = ids(2, 4, seed=4), torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    memory = model.encoder(*source).last_hidden_state
    expected = model(None, source[1], target, mask, encoder_outputs=(memory,)).logits
    compiled, cache = torch.compile(model, fullgraph=True, backend="eager"), _static_cache(model)
    same = {"encoder_outputs": (memory,), "past_key_values": cache}
    logits = [compiled(None, source[1], target[:, :3], mask[:, :3], **same).logits]
    logits.append(compiled(None, source[1], target[:, 3:], mask, **same).logits)
    torch.testing.assert_close(torch.cat(logits, dim=1)[mask.bool()], expected[mask.bool()], **CLOSE)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_generate_with_a_compiled_decoder_gives_the_same_tokens(model: Any, source: Any, compiler: str) -> None:
    options = {"attention_mask": source[1], "max_new_tokens": 6, "do_sample": False, "cache_implementation": "static"}
    expected = model.generate(source[0], **options)
    compiling = CompileConfig(fullgraph=True, backend=compiler, mode=None)
    compiling._compile_all_devices = True  # transformers compiles by itself on accelerators only
    actual = model.generate(source[0], compile_config=compiling, **options)
    assert hasattr(model, "_compiled_call")
    assert actual.tolist() == expected.tolist()


@pytest.mark.slow
def test_generate_serves_a_second_request_of_the_same_shape_by_the_same_graph(model: Any, ids: Any) -> None:
    compiling = CompileConfig(fullgraph=True, backend="eager", mode=None)
    compiling._compile_all_devices = True
    options = {"max_new_tokens": 5, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    for seed, stance in ((1, "default"), (2, "fail_on_recompile")):
        expected = model.generate(ids(2, 5, seed=seed), **options)
        with torch.compiler.set_stance(stance):
            actual = model.generate(
                ids(2, 5, seed=seed), **options, cache_implementation="static", compile_config=compiling
            )
        assert torch.equal(actual.sequences, expected.sequences)
        torch.testing.assert_close(actual.logits, expected.logits, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("bad", [97, -1])
@torch.no_grad()
def test_a_compiled_lookup_still_refuses_ids_out_of_range(make_model: Any, bad: int) -> None:
    compiled = torch.compile(make_model(num_hidden_layers=1).encoder, fullgraph=True)
    with pytest.raises(RuntimeError, match="index out of bounds"):
        compiled(torch.tensor([[5, bad, 6]]))


@pytest.mark.slow
def test_gradients_through_a_compiled_model_are_the_plain_ones(model: Any, source: Any, ids: Any) -> None:
    labels = ids(2, 4, seed=4)

    def gradients(run: Any) -> dict[str, torch.Tensor]:
        model.zero_grad()
        run(*source, labels=labels, use_cache=False).loss.backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    expected = gradients(model)
    actual = gradients(torch.compile(model, fullgraph=True, backend="eager"))
    torch.testing.assert_close(actual, expected, **CLOSE)
