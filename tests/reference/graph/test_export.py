"""A transformers model as a graph: NumPy runs it as torch runs the model, in float64 too, and each op has its line."""

from __future__ import annotations

import gc
import importlib
import inspect
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache

from detection.families.models import FAMILIES, result, tiny
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.export import exported
from qwen3_spec.aten import FLOAT32, TRUTH, Numbers
from qwen3_spec.aten.table import kernel_of
from qwen3_spec.graph import Graph, Line, Node, Ref


class Prefill(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        more = {"decoder_input_ids": input_ids} if self.model.config.is_encoder_decoder else {}
        return result(self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False, **more))


class Step(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        keys: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor],
    ) -> Any:
        cache = DynamicCache(config=self.model.config)
        for layer, (key, value) in enumerate(zip(keys, values, strict=True)):
            cache.update(key, value, layer)
        logits = self.model(input_ids, attention_mask, position_ids, **{CACHE: cache}, use_cache=True).logits
        return logits, [cached.keys for cached in cache.layers], [cached.values for cached in cache.layers]


class InFloat64(TorchDispatchMode):
    """Whatever asks for a narrower float gets float64: a model's truth, where `double()` leaves casts to float32."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(_wide, args), tree_map(_wide, dict(kwargs or {}))
        makers = ("zeros", "ones", "full", "arange", "scalar_tensor", "eye", "empty")
        name = func.overloadpacket.__name__
        if (
            name in makers
            and kwargs.get("dtype") is None
            and any(isinstance(argument, float) for argument in args[-1:])
        ):
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


def _wide(value: Any) -> Any:
    narrow = (torch.float32, torch.bfloat16, torch.float16)
    if isinstance(value, torch.Tensor) and value.dtype in narrow:
        return value.double()
    return torch.float64 if isinstance(value, torch.dtype) and value in narrow else value


class Exported(NamedTuple):
    module: nn.Module
    inputs: tuple[Any, ...]
    graph: Graph

    def run(self, numbers: Numbers) -> list[np.ndarray[Any, Any]]:
        """The graph's outputs on these inputs, in NumPy."""
        inputs = [tensor.numpy() for tensor in tree_leaves(self.inputs)]
        arrays = dict(zip(self.graph.inputs, inputs, strict=True))
        arrays |= {
            name: tensor.detach().float().numpy()
            for name, tensor in self.module.named_parameters(remove_duplicate=False)
        }
        values = self.graph.run(self.graph.leaf_values(arrays), numbers=numbers)
        return [values[number] for number in self.graph.taps.values()]

    def torch(self, *, truth: bool = False) -> list[np.ndarray[Any, Any]]:
        """What torch makes of the same, as it is or in float64."""
        with torch.no_grad():
            if not truth:
                return [tensor.numpy() for tensor in tree_leaves(self.module(*self.inputs))]
            wide = deepcopy(self.module).double()  # convolutions look at types before any mode does
            with InFloat64():
                return [tensor.numpy() for tensor in tree_leaves(wide(*self.inputs))]


@cache
def prefill(family: str) -> Exported:
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, :3] = 0
    inputs = (torch.randint(0, 61, (2, 9), generator=generator), mask)
    module = Prefill(tiny(family))
    return Exported(module, inputs, exported(module, inputs))


@cache
def step() -> Exported:
    model, (ids, mask) = tiny("qwen3.Qwen3"), prefill("qwen3.Qwen3").inputs
    with torch.no_grad():
        past = getattr(model(ids[:, :8], attention_mask=mask[:, :8], use_cache=True), CACHE)
    caches = [layer.keys.clone() for layer in past.layers], [layer.values.clone() for layer in past.layers]
    module, inputs = Step(model), (ids[:, 8:], mask, torch.tensor([[5], [8]]), *caches)
    return Exported(module, inputs, exported(module, inputs))


def worst(actual: Sequence[np.ndarray[Any, Any]], expected: Sequence[np.ndarray[Any, Any]]) -> float:
    """The largest difference, in parts of the largest number."""
    assert [array.shape for array in actual] == [array.shape for array in expected]
    pairs = zip(actual, expected, strict=True)
    return max(float(np.abs(mine - theirs)[..., -1:, :].max() / np.abs(theirs).max()) for mine, theirs in pairs)


@pytest.mark.sample(every=80)
@pytest.mark.parametrize("family", FAMILIES)
def test_numpy_gives_the_float64_truth_of_a_model_and_plain_float32_is_as_near_as_torchs(family: str) -> None:
    here = prefill(family)
    truth = here.torch(truth=True)
    assert worst(here.run(TRUTH), truth) < 1e-12
    assert worst(here.run(FLOAT32), truth) < 16 * max(worst(here.torch(), truth), 1e-7)


def test_a_step_takes_the_caches_and_gives_them_back() -> None:
    here = step()
    assert len(here.graph.taps) == 1 + 2 + 2
    assert worst(here.run(TRUTH), here.torch(truth=True)) < 1e-12


@pytest.mark.slow
def test_one_graph_of_a_bfloat16_model_with_free_sizes_serves_every_size_and_float32() -> None:
    here, free = prefill("qwen3.Qwen3"), {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    half = Prefill(tiny("qwen3.Qwen3"))
    before = {name: parameter.detach().clone() for name, parameter in half.named_parameters()}
    try:
        half.bfloat16()
        graph = exported(
            half, (torch.zeros(3, 17, dtype=torch.long), torch.ones(3, 17, dtype=torch.long)), (free, free)
        )
    finally:
        half.float().load_state_dict(before)
    assert worst(Exported(here.module, here.inputs, graph).run(TRUTH), here.torch(truth=True)) < 1e-12
    casts = [node for node in graph.nodes if node.op.startswith("_to_copy") and node.dtype == "bfloat16"]
    assert any("input_dtype" in source(node.lines[-1]) for node in casts)


def source(line: Line) -> str:
    """The text of a line of the installed transformers."""
    name = line.file.removesuffix(".py").removeprefix("modeling_")
    module = importlib.import_module(f"transformers.models.{name}.{line.file.removesuffix('.py')}")
    return Path(inspect.getfile(module)).read_text(encoding="utf-8").splitlines()[line.number - 1]


def test_every_op_says_its_module_and_its_line() -> None:
    nodes = prefill("qwen3_moe.Qwen3Moe").graph.nodes
    assert all(node.lines and node.module.startswith("model") for node in nodes)
    (eps, *_) = [
        node for node in nodes if node.module.endswith("layers.1.self_attn.q_norm") and node.op == "add.Tensor"
    ]
    assert "self.variance_epsilon" in source(eps.lines[-1])


def test_what_is_in_a_helper_says_the_helpers_line() -> None:
    turned = [node for node in prefill("qwen3.Qwen3").graph.nodes if node.op.startswith("neg")]
    assert {node.lines[-1].function for node in turned} == {"rotate_half"}
    assert {node.lines[0].function for node in turned} == {"forward"}


class Looked(nn.Module):
    """An activation that is looked up in a call, and one that is a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.act = ACT2FN["gelu"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(ACT2FN["silu"](x))


def test_an_activation_that_is_looked_up_has_the_line_that_calls_it_and_a_module_its_own_alone() -> None:
    looked, module = exported(Looked(), (torch.ones(2, 3),)).nodes
    assert [line.file for line in looked.lines] == [Path(__file__).name, "activations.py"] and not looked.module
    assert {line.file for line in module.lines} == {"activations.py"} and module.module == "act"


@pytest.mark.parametrize("collects", [True, False])
def test_cycles_are_collected_again_as_before_also_where_a_module_cannot_be_exported(*, collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        exported(nn.ReLU(), (torch.ones(2),))
        with pytest.raises(RuntimeError):
            exported(Refused(), (torch.ones(2),))
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


class Refused(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[: int(x.sum())]


def test_a_slice_is_run_from_the_nearest_known_values() -> None:
    graph = prefill("qwen3.Qwen3").graph
    here = prefill("qwen3.Qwen3")
    inputs = {name: tensor.numpy() for name, tensor in zip(graph.inputs, here.inputs, strict=True)}
    inputs |= {name: tensor.detach().numpy() for name, tensor in here.module.named_parameters()}
    leaves = graph.leaf_values(inputs)
    whole = graph.run(dict(leaves))
    made_in = {node.module: number for number, node in enumerate(graph.nodes, len(graph.leaves))}
    target, known = made_in["model.model.layers.1.input_layernorm"], {made_in["model.model.layers.0"]}
    order = graph.slice([target], known)
    assert 0 < len(order) < 12
    again = graph.run({**leaves, **{number: whole[number] for number in known}}, order)
    np.testing.assert_array_equal(again[target], whole[target])


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (Node("made_up.default", (Ref(0),), {}, "float32", (1,), "", ()), "nothing here computes: made_up.default"),
        (Node("neg.default", (Ref(1),), {}, "float32", (1,), "", ()), "reads a value that is not made before it"),
        (Node("neg.default", (Ref(-1),), {}, "float32", (1,), "", ()), "reads a value that is not made before it"),
    ],
)
def test_a_graph_that_cannot_run_is_refused_before_it_runs(node: Node, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Graph(("x",), (), {}, (node,), {}).check()


def test_a_result_of_another_shape_than_the_graph_says_is_refused() -> None:
    graph = Graph(("x",), (), {}, (Node("neg.default", (Ref(0),), {}, "float32", (3,), "mlp", ()),), {("y", 0): 1})
    with pytest.raises(ValueError, match=r"neg.default in mlp: it gives \[2\], not \[3\]"):
        graph.run(graph.leaf_values({"x": np.zeros(2)}))


def test_complex_numbers_where_the_graph_has_real_ones_are_refused() -> None:
    graph = Graph(("x",), (), {}, (Node("neg.default", (Ref(0),), {}, "float32", (2,), "mlp", ()),), {("y", 0): 1})
    with pytest.raises(ValueError, match=r"neg.default in mlp: it gives complex numbers, not real ones"):
        graph.run({0: np.zeros(2, complex)})


class Attended(nn.Module):
    """Ops that nothing here computes, and torch makes of others."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "log_sigmoid":
            return nn.functional.logsigmoid(30 * x)
        query, key, value = x, x.roll(1, -1), x.roll(2, -2)
        mask = torch.arange(x.shape[-2])[None] <= torch.arange(x.shape[-2])[:, None] if "mask" in self.how else None
        attended = nn.functional.scaled_dot_product_attention
        if "bias" in self.how:
            mask = x @ x.mT
        return attended(
            query, key, value, mask, scale=0.3 if "scale" in self.how else None, is_causal=self.how == "causal"
        )


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("how", ["plain", "scale", "mask", "mask and scale", "bias", "causal", "log_sigmoid"])
def test_an_op_that_nothing_here_computes_is_what_torch_makes_it_of(how: str) -> None:
    x = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(1))
    module = Attended(how)
    graph = exported(module, (x,))
    (result,) = graph.taps.values()
    values = graph.run(graph.leaf_values({graph.inputs[0]: x.numpy()}))
    np.testing.assert_allclose(values[result], module(x.double()), rtol=1e-6, atol=1e-7)
    assert all(kernel_of(node.op) for node in graph.nodes)
