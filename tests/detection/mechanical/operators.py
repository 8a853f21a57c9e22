"""Mutation operators: small changes of a syntax tree, each a function from a node to its replacements.

A replacement shares the children it keeps; the node itself is never changed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import copy
from itertools import pairwise
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
Operator = Callable[[ast.AST], Iterator[ast.AST]]

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SIBLINGS = (
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("query_heads", "key_heads", "value_heads"),
    ("gate_proj", "up_proj"),
    ("q_norm", "k_norm"),
    ("input_layernorm", "post_attention_layernorm"),
    ("cos", "sin"),
    ("query", "key", "value"),
    ("queries", "keys", "values"),
    ("first", "second"),
    ("num_attention_heads", "kv_heads"),
    ("hidden_size", "intermediate_size"),
    ("query_width", "key_width"),
    ("encoder", "decoder"),
    ("own", "memory"),
    ("past", "query"),
    ("count", "first"),
    ("batch", "length"),
    ("self_attention_cache", "cross_attention_cache"),
    ("attention_mask", "encoder_attention_mask"),
    ("decoder_attention_mask", "encoder_attention_mask"),
    ("position_ids", "encoder_position_ids"),
    ("decoder_position_ids", "encoder_position_ids"),
    ("position_embeddings", "encoder_position_embeddings"),
    ("hidden_states", "memory"),
    ("decoder_hidden_states", "encoder_hidden_states"),
    ("stream", "attended"),
    ("encoder_config", "config"),
    ("encoder_directory", "decoder_directory"),
    ("attention_bias", "attention_out_bias"),
    ("past_length", "own_slots"),
    ("min", "max"),
    ("minimum", "maximum"),
    ("ones", "zeros"),
    ("ones_like", "zeros_like"),
    ("mean", "sum"),
    ("rsqrt", "sqrt"),
    ("softmax", "log_softmax"),
    ("float32", "bfloat16"),
)
"""Names that can be mistaken for each other; each is swapped with the next of its group, the last with the first."""
_FUNCTIONS_OF = {"torch", "nn", "functional", "self", "cls"}
"""What stands before the dot of a function; before any other call's dot stands the value it works on."""
_COMMUTATIVE = {"transpose", "minimum", "maximum", "min", "max"}
"""Calls whose first two arguments may be swapped without any effect."""


def _with(node: Node, **fields: object) -> Node:
    new = copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def arithmetic(node: ast.AST) -> Iterator[ast.AST]:
    """Another arithmetic or bitwise operator; strings are left alone."""
    if isinstance(node, ast.BinOp) and not isinstance(node.left, ast.JoinedStr) and type(node.op) in _ARITHMETIC:
        yield _with(node, op=_ARITHMETIC[type(node.op)]())


def operand(node: ast.AST) -> Iterator[ast.AST]:
    """One operand of a sum, a product, an `and`, an `or` alone."""
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            rest = node.values[:index] + node.values[index + 1 :]
            yield _with(node, values=rest) if len(rest) > 1 else rest[0]


def comparison(node: ast.AST) -> Iterator[ast.AST]:
    """The neighbouring comparison: another edge, or the opposite where there is no edge."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield _with(node, ops=[*node.ops[:place], _COMPARISON[type(operator)](), *node.ops[place + 1 :]])


def boolean(node: ast.AST) -> Iterator[ast.AST]:
    """`and` for `or`, and the other way round."""
    if isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def branch(node: ast.AST) -> Iterator[ast.AST]:
    """One branch of a conditional expression for both, an `if` that never runs, or one with its condition negated."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.If):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test)) if node.orelse else ast.Pass()


def constant(node: ast.AST) -> Iterator[ast.AST]:
    """Another number: an integer one larger, a float by a hundredth; the opposite truth value. No strings."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 1.01 if value else 0.01)


def _bounds(part: ast.expr) -> Iterator[ast.expr]:
    """A slice with one bound moved by one or taken away."""
    if not isinstance(part, ast.Slice):
        return
    for name in ("lower", "upper"):
        bound = getattr(part, name)
        if bound is None:
            continue
        yield _with(part, **{name: None})
        if not isinstance(bound, ast.Constant):
            yield _with(part, **{name: ast.BinOp(bound, ast.Add(), ast.Constant(1))})


def index(node: ast.AST) -> Iterator[ast.AST]:
    """One bound of a slice moved or dropped, or a whole subscript without bounds dropped."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)):
        return
    if not any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
        yield node.value
    yield from (_with(node, slice=part) for part in _bounds(node.slice))
    if isinstance(node.slice, ast.Tuple):
        for place, part in enumerate(node.slice.elts):
            for bounds in _bounds(part):
                parts = [*node.slice.elts[:place], bounds, *node.slice.elts[place + 1 :]]
                yield _with(node, slice=_with(node.slice, elts=parts))


def call(node: ast.AST) -> Iterator[ast.AST]:
    """A call dropped: a method's receiver for its result, or a function's first argument."""
    if not isinstance(node, ast.Call):
        return
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    words = {n.id for n in ast.walk(owner) if isinstance(n, ast.Name)} if isinstance(owner, ast.expr) else set()
    if owner is not None and not words & (_FUNCTIONS_OF | {"super"}):
        yield owner
    elif node.args and "super" not in words:
        yield node.args[0]


def argument(node: ast.AST) -> Iterator[ast.AST]:
    """Two neighbouring arguments, elements or targets swapped; a keyword argument left to its default."""
    field = "args" if isinstance(node, ast.Call) else "elts" if isinstance(node, ast.Tuple) else ""
    if not field:
        return
    items: list[ast.expr] = getattr(node, field)
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _COMMUTATIVE:
        return
    for place, (first, second) in enumerate(pairwise(items)):
        if ast.dump(first) != ast.dump(second):
            yield _with(node, **{field: [*items[:place], second, first, *items[place + 2 :]]})
    if isinstance(node, ast.Call):
        for place in (i for i, keyword in enumerate(node.keywords) if keyword.arg != "device"):  # there is one device
            yield _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])


def sign(node: ast.AST) -> Iterator[ast.AST]:
    """A unary minus, `~` or `not` dropped."""
    if isinstance(node, ast.UnaryOp):
        yield node.operand


def name(node: ast.AST) -> Iterator[ast.AST]:
    """Another name of the same family."""
    field = "id" if isinstance(node, ast.Name) else "attr" if isinstance(node, ast.Attribute) else ""
    if field and isinstance(getattr(node, "ctx", None), ast.Load):
        word = getattr(node, field)
        for group in SIBLINGS:
            if word in group:
                yield _with(node, **{field: group[(group.index(word) + 1) % len(group)]})


def statement(node: ast.AST) -> Iterator[ast.AST]:
    """A statement left out."""
    if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign):
        yield ast.Pass()


OPERATORS: dict[str, Operator] = {
    "arithmetic": arithmetic,
    "operand": operand,
    "comparison": comparison,
    "boolean": boolean,
    "branch": branch,
    "constant": constant,
    "index": index,
    "call": call,
    "argument": argument,
    "sign": sign,
    "name": name,
    "statement": statement,
}
"""Every operator by the name that a mutant's id carries."""
