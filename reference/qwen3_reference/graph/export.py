"""From a torch module to the graph of its ops, each with its module and the lines of source that it comes from."""

from __future__ import annotations

import gc
import re
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import OutputKind, OutputSpec
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.proxy import TracerBase

from qwen3_reference.graph.fold import folded, replaced
from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.table import kernel_of
from qwen3_spec.graph import Graph, Line, Node, Operand, Ref

_UNREAD = frozenset({"device", "pin_memory", "layout", "memory_format", "non_blocking", "implicit"})
"""Operands that change no number."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_WRAPPERS = frozenset(
    {"output_capturing.py", "modeling_layers.py", "generic.py", "deprecation.py", "_symbolic_trace.py"}
)
"""Files of transformers and torch that call a module's forward and compute nothing."""
_TORCH_LAYERS = frozenset({"linear.py", "sparse.py", "conv.py", "activation.py", "normalization.py"})
"""torch's own modules: the line that calls them says more than theirs."""
_ACTIVATIONS = "activations.py"
_DEEPEST = 4
"""How often an op is taken apart: attention is made of a kernel, which has a formula."""
_SIZES = {name: f"size_{name}" for name in ("mul", "add", "sub", "floordiv", "mod", "neg")}
_SIZES |= {f"sym_{name}": f"size_{name}" for name in ("min", "max")}


def exported(
    module: nn.Module,
    inputs: tuple[Any, ...] | Mapping[str, torch.Tensor],
    sizes: Any = None,
    *,
    keys: Callable[[], Sequence[tuple[str, int]]] | None = None,
    root: str = "",
) -> Graph:
    """The ops of a module's forward on inputs like these, in order: no op that nobody reads, no value twice.

    `inputs` by place, or by name in one dict, which is the forward's one argument then; `sizes` says which sizes are
    free, as `torch.export.export` takes them. `keys()` are the taps that the module's results are, asked for after the
    export, which is when hooks know them; without it they have torch's names. Paths and names of parameters lose `root`
    and its dot. Raises what torch raises for a module that it cannot export, and `ValueError` for an op that nothing
    here computes.
    """
    # By name is one dict: of `**inputs` torch lets no size be free.
    places, names = (inputs, None) if isinstance(inputs, tuple) else ((dict(inputs),), tuple(inputs))
    # With gradients on, RoPE is a region of its own, without its lines.
    with torch.no_grad(), _every_frame(), _quickly(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch's own, of its own code
        program = torch.export.export(module, places, strict=False, dynamic_shapes=sizes)
        program = _decomposed(program.run_decompositions({}))
    graph = _graph(program, names, None if keys is None else keys(), f"{root}." if root else "")
    graph.check()
    return graph


@contextmanager
def _every_frame() -> Iterator[None]:
    """Frames of transformers' functions in stack traces, beside those of `forward`, where torch lets us have them."""
    before = getattr(TracerBase, "_filter_traceback_frames", None)
    if before is None:
        yield
        return

    def ours(_: TracerBase, summary: traceback.StackSummary) -> traceback.StackSummary:
        return traceback.StackSummary.from_list(
            [frame for frame in summary if frame.name == "forward" or "/transformers/" in frame.filename]
        )

    TracerBase._filter_traceback_frames = ours  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = before  # type: ignore[method-assign]


@contextmanager
def _quickly() -> Iterator[None]:
    """A fifth less time: torch writes no Python of its graph after each pass, and nobody looks for cycles in it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with _use_lazy_graph_module(True):
            yield
    finally:
        if collects:
            gc.enable()


def _decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The same with the ops that nothing here computes made of those that torch itself makes them of."""
    for _ in range(_DEEPEST):
        targets = {node.target for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
        unknown = [op for op in targets if kernel_of(_name(op)) is None]
        theirs = torch.export.default_decompositions() if unknown else {}
        if not (known := {op: theirs[op] for op in unknown if op in theirs}):
            break
        program = program.run_decompositions(known)
    return program


def _graph(
    program: torch.export.ExportedProgram,
    names: Sequence[str] | None,
    keys: Sequence[tuple[str, int]] | None,
    root: str,
) -> Graph:
    signature, stored = program.graph_signature, {**program.state_dict, **program.constants}
    parameters = dict(signature.inputs_to_parameters)
    constants = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    every = list(program.graph.nodes)
    same = folded(every)
    results = _results(every, signature.output_specs, same)
    alive = _read(every, results, same)
    user, weights, held = _leaves(every, alive, parameters, constants)
    ops = _sizes_first([node for node in every if node.op == "call_function" and node in alive])
    numbers = {node: number for number, node in enumerate((*user, *weights, *held, *ops))}
    numbers.update({node: numbers[first] for node, first in same.items() if first in numbers})
    taps = [(node.name, 0) for node in results] if keys is None else keys
    return Graph(
        tuple(names or [node.name for node in user]),
        tuple(parameters[node.name].removeprefix(root) for node in weights),
        {constants[node.name].removeprefix(root): _array(stored[constants[node.name]]) for node in held},
        tuple(_node(node, numbers, root) for node in ops),
        {key: numbers[node] for key, node in zip(taps, results, strict=True)},
    )


def _results(nodes: Sequence[fx.Node], specs: Sequence[OutputSpec], same: Mapping[fx.Node, fx.Node]) -> list[fx.Node]:
    """What the forward gives: results of buffers that it changes come first, and are nobody's taps."""
    (output,) = (node for node in nodes if node.op == "output")
    outputs = torch.utils._pytree.tree_leaves(output.args)
    return [
        replaced(node, same)
        for node, spec in zip(outputs, specs, strict=True)
        if spec.kind == OutputKind.USER_OUTPUT and isinstance(node, fx.Node)
    ]


def _leaves(nodes: Sequence[fx.Node], alive: Collection[fx.Node], *names: Collection[str]) -> Iterator[list[fx.Node]]:
    """The inputs, then what is read of the parameters, and of the constants, that are called by these `names`."""
    leaves = [node for node in nodes if node.op == "placeholder"]
    yield [node for node in leaves if not any(node.name in group for group in names)]
    for group in names:
        yield [node for node in leaves if node.name in group and node in alive]


def _read(nodes: list[fx.Node], results: Sequence[fx.Node], same: Mapping[fx.Node, fx.Node]) -> set[fx.Node]:
    """The nodes that a result follows from: no assertions, and nothing that only they read."""
    alive = set(results)
    for node in reversed(nodes):
        if node in alive:
            alive.update(same.get(read, read) for read in node.all_input_nodes)
    return alive


def _sizes_first(nodes: list[fx.Node]) -> list[fx.Node]:
    """Numbers that follow from the inputs' sizes before all else: the first layer would make what the others read."""
    early = set[fx.Node]()
    for node in nodes:
        if isinstance(node.meta.get("val"), torch.SymInt) and all(
            read.op == "placeholder" or read in early for read in node.all_input_nodes
        ):
            early.add(node)
    return [node for node in nodes if node in early] + [node for node in nodes if node not in early]


def _array(value: Any) -> Array:
    value = value.detach()
    return (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).contiguous().cpu().numpy()  # type: ignore[no-any-return]


def _node(node: fx.Node, numbers: Mapping[fx.Node, int], root: str) -> Node:
    value = node.meta.get("val")
    tensor = value if isinstance(value, torch.Tensor) else None
    return Node(
        op=_name(node.target),
        operands=tuple(_operand(value, numbers) for value in node.args),
        named={name: _operand(value, numbers) for name, value in node.kwargs.items() if name not in _UNREAD},
        dtype="" if tensor is None else str(tensor.dtype).removeprefix("torch."),
        shape=() if tensor is None else tuple(size if isinstance(size, int) else None for size in tensor.shape),
        module=f"{_module(node)}.".removeprefix(root).removesuffix("."),  # the root's own path is empty
        lines=tuple(_lines(node)),
    )


def _name(target: str | Callable[..., Any]) -> str:
    """An op's name as the table has it: "add.Tensor", "getitem", "size_mul"."""
    if isinstance(target, torch._ops.OpOverload):
        name = str(target).removeprefix("aten.")
        return "sym_size" if name.startswith("sym_size") else name
    name = getattr(target, "__name__", str(target))
    return _SIZES.get(name, name)


def _operand(value: Any, numbers: Mapping[fx.Node, int]) -> Operand:
    if isinstance(value, fx.Node):
        return Ref(numbers[value])
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return tuple(_operand(part, numbers) for part in value) if isinstance(value, list | tuple) else value


def _module(node: fx.Node) -> str:
    """The path of the module in whose forward an op runs."""
    stack = node.meta.get("nn_module_stack")
    return str(list(stack.values())[-1][0]) if stack else ""


def _file(node: fx.Node) -> str:
    """The file of the class of an op's module; empty for one that has none."""
    stack = node.meta.get("nn_module_stack")
    kind = list(stack.values())[-1][1] if stack else ""
    path = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return f"{path.split('.')[-2]}.py" if "." in path else ""


def _lines(node: fx.Node) -> Iterator[Line]:
    """From the line of the innermost forward to the line of the function that runs the op.

    An activation that nobody registered, as one that is looked up in a call, is a function of the module around it.
    """
    trace = _FRAME.findall(node.meta.get("stack_trace") or "")
    frames = [Line(path.rpartition("/")[2], int(line), function) for path, line, function in trace]
    frames = [frame for frame in frames if frame.file not in _WRAPPERS]
    inside = _file(node) == _ACTIVATIONS
    forwards = (place for place, frame in enumerate(frames)
                if frame.function == "forward" and (inside or frame.file != _ACTIVATIONS))  # fmt: skip
    last = max(forwards, default=0)
    if frames and frames[last].file in _TORCH_LAYERS and last:
        last -= 1
    yield from frames[last:]
