"""An edit of the reference's graph: what a mistake would make of an op, a parameter or a module, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from qwen3_golden import Array
from qwen3_parity.mistakes.ranks import Rank
from qwen3_parity.slices.network import Network
from qwen3_spec.aten import Kind as OpKind
from qwen3_spec.aten import Numbers, elements, kernel_of
from qwen3_spec.graph import LIMIT, Line, Node, result_of


class Site(NamedTuple):
    """What names the same op wherever its line runs: the line, the op, and where its operands come from.

    A parameter or input is a site without a line: `op` is its name, with the number of its layer left open.
    """

    file: str
    number: int
    op: str
    operands: tuple[str, ...] = ()
    module: str = ""


class Block(NamedTuple):
    """The value that a part of a region reads, the one that it gives, and the ops between, in order."""

    begin: int
    end: int
    values: tuple[int, ...]


class Around(Protocol):
    """What an edit asks of the region that it is made in, see `Region`."""

    value: int
    network: Network
    key: tuple[str, int]
    work: int
    memory: dict[Any, Any]

    @property
    def order(self) -> Sequence[int]: ...
    @property
    def base(self) -> Mapping[int, Any]: ...
    @property
    def names(self) -> Mapping[int, str]: ...
    @property
    def users(self) -> Mapping[int, Sequence[int]]: ...
    @property
    def sites(self) -> Mapping[Site, Sequence[int]]: ...
    @property
    def blocks(self) -> Mapping[Site, Sequence[Block]]: ...
    def node(self, value: int) -> Node | None: ...
    def at(self, site: Site) -> Sequence[int]: ...
    def block_of(self, value: int, site: Site) -> Block: ...
    def of_block(self, block: Block, env: dict[int, Any], numbers: Numbers) -> Array: ...
    def again(self, call: Call, x: Array, block: Block | None = None) -> Array: ...
    def source(self, name: str, numbers: Numbers = ..., shape: tuple[int, ...] | None = None) -> Array: ...
    def alone(self, value: int, numbers: Numbers = ...) -> Array: ...
    @property
    def counterparts(self) -> Mapping[int, Any]: ...
    def counterpart(self, value: int) -> Array: ...
    def parameter(self, name: str) -> Array: ...
    def of(self, value: int, key: tuple[str, int]) -> Around: ...
    def downstream(self, values: Iterable[int]) -> list[int]: ...
    def values(self, edit: Edit) -> dict[int, Any] | None: ...
    def compute(
        self, order: Sequence[int], env: dict[int, Any], changes: Changes, numbers: Numbers, *, whole: bool
    ) -> dict[int, Any]: ...
    @property
    def parameters(self) -> frozenset[int]: ...


_BYTES = 8  # of a float64, an int64
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$|\[|#)")


def numbers_of(name: str) -> tuple[int, ...]:
    """The numbers of layers and experts in a name."""
    return tuple(map(int, _NUMBER.findall(name)))


def opened(name: str) -> str:
    """A name with the numbers of layers and experts left open."""
    return _NUMBER.sub("*", name)


@dataclass(frozen=True)
class Call:
    """An op of an edited region that is about to run, its operands computed with whatever was edited before it.

    A parameter or input is a call without a node: `operands` is its array alone. `before` has values without any edit.
    """

    region: Around
    env: Mapping[int, Any]
    value: int
    node: Node | None
    operands: tuple[Any, ...]
    named: Mapping[str, Any]
    numbers: Numbers
    site: Site
    before: Mapping[int, Any]

    def plain(self, *operands: Any, **named: Any) -> Any:
        """The op as it is, on these operands, or on its own."""
        if self.node is None:
            return operands[0] if operands else self.operands[0]
        kernel = kernel_of(self.node.op)
        assert kernel is not None
        return result_of(self.node, kernel.kind, self.loose(*(operands or self.operands), **named), self.numbers)

    def loose(self, *operands: Any, **named: Any) -> Any:
        """As `plain`, of whatever shape. Raises `ValueError` for more bytes than an op may make."""
        assert self.node is not None
        kernel = kernel_of(self.node.op)
        assert kernel is not None
        every = {**self.named, **named}
        if elements(self.node.op, list(operands), every) * _BYTES > LIMIT:
            raise ValueError("an edit makes too much")
        return kernel.compute(*([self.numbers] if kernel.takes_numbers else []), *operands, **every)

    def settled(self, result: Any) -> Any:
        """An edit's result as the op's, of its shape and type. Raises `ValueError` for another shape."""
        return result if self.node is None else result_of(self.node, OpKind.MOVE, result, self.numbers)


class Written(NamedTuple):
    """The line of an op, the one that calls the function or the small module that it stands in, if it is known, and
    the one that reads the value, where the op is another's.
    """

    line: Line
    caller: Line | None = None
    reader: Line | None = None


Change = Callable[[Call], Any]
"""What stands in the place of an op's result."""
Changes = Mapping[int, tuple[Site, Change]]
"""By the values that they are of."""


@dataclass(frozen=True)
class Edit:
    """Changes by site. `name` is stable ("edit.constant"), `says` what is done, without a subject, `line` where.

    `parts`: two mistakes at once, each by itself.
    """

    name: str
    says: str
    rank: Rank
    changes: Mapping[Site, Change]
    line: Written | None = None
    parts: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Free:
    """A family of edits by a number that is fitted: `starts` are where it is looked for, `plain` changes nothing.

    Nor does what is nearer to it than the part `least` of it.
    """

    edit: Callable[[float], Edit]
    starts: tuple[float, ...]
    plain: float | None = None
    least: float = 0.0
