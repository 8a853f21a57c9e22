"""What holds of every recording's metadata. The reader refuses what breaks it, the writer does not write it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite, prod

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.dtypes import NUMPY
from qwen3_golden.errors import ParityError

_MAX_DIMENSIONS = 32
_STRATEGIES = ("greedy", "sample")
_NEXT = "copy the file again, or correct what wrote it"
SIZES = {
    "hidden_size": (1, 1 << 20),
    "intermediate_size": (1, 1 << 22),
    "num_hidden_layers": (1, 1024),
    "num_attention_heads": (1, 1 << 14),
    "num_key_value_heads": (1, 1 << 14),
    "head_dim": (1, 1 << 16),
    "vocab_size": (0, 1 << 24),  # a classic encoder may start with hidden states
}
"""The least and the most of each size: beyond them no network was ever built, and readers would fall."""
_ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu")
_LAYER_TYPES = ("full_attention", "sliding_attention")
REFERENCE = "qwen3_reference"
"""The producer of goldens. What others record of a golden's case need not repeat its graph."""
MODEL = "model"
"""The role of the checkpoint of such a case."""


def check_tensor(where: object, info: pb.Tensor, size: int) -> None:
    """A tensor's dtype, shape, axes and digest make sense and belong to a payload of `size` bytes, or `ParityError`."""

    def refuse(rule: str, expected: object, got: object) -> ParityError:
        return ParityError(
            where, f"{info.name} (step {info.step}): {rule}", expected=expected, got=got, next_step=_NEXT
        )

    if info.dtype not in NUMPY:
        _check_enum(where, f"dtype of {info.name} (step {info.step})", info.dtype, pb.DType.items())
    if len(info.shape) > _MAX_DIMENSIONS:
        raise refuse("too many dimensions", f"at most {_MAX_DIMENSIONS}", len(info.shape))
    needed = prod(info.shape) * NUMPY[info.dtype].itemsize
    if not needed == info.bytes == size:
        shape = "x".join(map(str, info.shape)) or "scalar"
        raise refuse(
            "its size disagrees with its shape",
            f"{needed} bytes for {shape} {pb.DType.Name(info.dtype)}",
            f"{size} bytes in the payload, {info.bytes} in the metadata",
        )
    if len(info.axes) not in (0, len(info.shape)):
        raise refuse("its axes disagree with its shape", f"{len(info.shape)} names", list(info.axes))
    if len(info.sha256) not in (0, 32):
        raise refuse("its digest is no SHA-256", "32 bytes, or none", f"{len(info.sha256)} bytes")


def check_once(where: object, info: pb.Tensor, keys: set[tuple[str, int]]) -> None:
    """A tensor is not one of those that stand there already, by name and step, and becomes one; or `ParityError`."""
    if (info.name, info.step) in keys:
        rule = f"{info.name} (step {info.step}) stands there twice"
        raise ParityError(where, rule, expected="each name once in a step", got="another", next_step=_NEXT)
    keys.add((info.name, info.step))


def check_metadata(
    where: object,
    case: pb.Case,
    run: pb.Run,
    parameters: Iterable[pb.Parameter],
    graph: pb.Graph | None = None,
    producer: str = "",
) -> None:
    """Names of cases lead to no other file, enums have values of this schema, a network can be, or `ParityError`.

    A run need not say its arithmetic and its backend: a candidate's are the golden's, and foreign. `graph` is the
    recording's, None without one, and `producer` who recorded it.
    """
    _check_name(where, "name of the case", case.name)
    if case.after:
        _check_name(where, "name of the case before it", case.after)
    if case.tier:
        _check_enum(where, "tier of the case", case.tier, pb.Tier.items())
    _check_enum(where, "mode of the case", case.mode, pb.Mode.items())
    if case.HasField("config"):
        _check_config(where, case.config)
    if case.HasField("generation") and case.generation.strategy not in _STRATEGIES:
        raise ParityError(
            where,
            "the strategy of the case is not valid",
            expected=" or ".join(_STRATEGIES),
            got=ascii(case.generation.strategy),
            next_step=_NEXT,
        )
    if run.arithmetic:
        _check_enum(where, "arithmetic of the run", run.arithmetic, pb.Arithmetic.items())
    if run.backend:
        _check_enum(where, "backend of the run", run.backend, pb.Backend.items())
    for parameter in parameters:
        _check_enum(where, f"dtype of {parameter.name}", parameter.dtype, pb.DType.items())
    if case.mode == pb.GRAPH or graph is not None:
        _check_graph_case(where, case, graph, producer)


def is_plain_name(name: str) -> bool:
    """Whether a case's name is folders and a file: "decoder/ragged_decode", never a way out of the folder it is below.

    Printable characters, no backslash and no colon, no part that is empty or begins with a dot, and no suffix ".pb",
    which is that of a file and not of a case.
    """
    parts = name.split("/")
    return (
        name.isprintable()
        and not set(name) & set("\\:")
        and not any(part.startswith(".") or part != part.strip() or not part for part in parts)
        and not name.lower().endswith(".pb")
    )


def _check_name(where: object, kind: str, name: str) -> None:
    if not is_plain_name(name):
        raise ParityError(
            where,
            f"the {kind} is not valid",
            expected='a folder and a file without its suffix, as "decoder/ragged_decode"',
            got=ascii(name),
            next_step=_NEXT,
        )


def _check_enum(where: object, kind: str, value: int, items: Iterable[tuple[str, int]]) -> None:
    valid = {code: name for name, code in items if code}
    if value not in valid:
        raise ParityError(
            where,
            f"the {kind} is not valid",
            expected=", ".join(valid.values()),
            got=f"{value}, {'which this schema does not have' if value else 'unset'}",
            next_step=_NEXT,
        )


def _check_config(where: object, config: pb.ModelConfig) -> None:
    """The numbers are those of a network that can be, or `ParityError` for the first field that is not."""
    for name, expected, got in _impossible(config):
        raise ParityError(
            where,
            f"case.config.{name}: no network has it",
            expected=expected,
            got=got,
            next_step="copy case.config from the golden, or correct what wrote it",
        )


def _impossible(config: pb.ModelConfig) -> Iterator[tuple[str, object, object]]:
    """Field, what was expected, what it is."""
    for name, (least, most) in SIZES.items():
        value = getattr(config, name)
        if not least <= value <= most:
            yield name, f"{least} to {most}", value
    heads, shared, classic = config.num_attention_heads, config.num_key_value_heads, config.HasField("classic_encoder")
    if heads % shared:
        yield "num_key_value_heads", f"a divisor of num_attention_heads, {heads}", shared
    if config.head_dim % 2 and not classic:
        yield "head_dim", "an even number: RoPE rotates pairs of channels", config.head_dim
    for name in () if classic else ("rms_norm_eps", "rope_theta"):
        value = getattr(config, name)
        if not (isfinite(value) and value > 0):
            yield name, "a positive number", value
    if config.hidden_act not in _ACTIVATIONS:
        yield "hidden_act", f"one of {', '.join(_ACTIVATIONS)}", config.hidden_act
    if len(config.layer_types) not in (0, config.num_hidden_layers):
        yield "layer_types", f"one of each of {config.num_hidden_layers} layers", f"{len(config.layer_types)} of them"
    for kind in config.layer_types:
        if kind not in _LAYER_TYPES:
            yield "layer_types", " or ".join(_LAYER_TYPES), kind
    if _LAYER_TYPES[1] in config.layer_types and not config.sliding_window:
        yield "sliding_window", "a number of slots, since layers slide", config.sliding_window


def _check_graph_case(where: object, case: pb.Case, graph: pb.Graph | None, producer: str) -> None:
    """A golden of mode GRAPH has a graph, no other mode has one, and the case says its steps, or `ParityError`."""

    def refuse(rule: str, expected: object, got: object) -> ParityError:
        next_step = "capture the case again, or correct what wrote it"
        return ParityError(where, rule, expected=expected, got=got, next_step=next_step)

    mode = pb.Mode.Name(case.mode)
    if case.mode != pb.GRAPH:
        raise refuse("a graph stands in a case of another mode", "mode GRAPH", mode)
    if graph is None and producer == REFERENCE:
        raise refuse("a golden of mode GRAPH has no graph", "the graph of its model", "none")
    if case.HasField("config"):
        raise refuse("a case of mode GRAPH has a config", "the graph's own config.json", case.config.model_type)
    if not case.steps or 0 in case.steps:
        raise refuse("a case of mode GRAPH does not say its steps", "a query length for each forward", list(case.steps))
    roles = [checkpoint.role for checkpoint in case.checkpoint]
    if roles not in ([], [MODEL]):
        rule = "the checkpoints of a case of mode GRAPH are not its model's"
        raise refuse(rule, f"one of role {MODEL!r}, or none", ", ".join(map(ascii, roles)))
    last = max((tap.step for tap in graph.tap), default=0) if graph is not None else 0
    if last >= len(case.steps):
        raise refuse(
            "a tap of the graph is of a step that the case does not have", f"steps below {len(case.steps)}", last
        )
