"""Dumps of transformers' model debugger: a tree in JSON, and each tensor in a safetensors file of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from qwen3_parity.recording.dumps.dump import Dumped, files, reading, refused
from qwen3_parity.recording.dumps.safetensors_files import read_file
from qwen3_reference.checkpoints.stored import read_json

TREE = "_debug_tree_FULL_TENSORS.json"
_FILE = re.compile(
    r"(?P<path>.+?)_(?:inputs_args_(?P<number>\d+)|inputs_kwargs_(?P<word>.+)|outputs(?:_(?P<part>.+))?)"
)
_PLACES = {"hidden_states": 0, "input": 0, "x": 0, "position_ids": 1}
"""Arguments that Hugging Face's modules are given by name, and their places."""


def read_debugger(tree: Path) -> list[Dumped]:
    """Every tensor of the folder of a tree; raises `ParityError` for one that has texts in their place.

    The tree says whose modules they are and which files there must be. No path in it is followed.
    """
    with reading(tree):
        root = read_json(tree)
    model, folder = root.get("module_path"), tree.parent
    if not isinstance(model, str) or not tree.name == f"{model}{TREE}":
        raise refused(tree, "this is not the tree of a model", f"module_path {tree.name.removesuffix(TREE)}", model)
    there = {path.name: path for path in files(folder, ".safetensors")}
    named = set(_files_of(root))
    if missing := sorted(named - there.keys()):
        raise refused(folder, "tensors that the tree names are not there", missing[0], f"{len(missing)} are missing")
    if not there:
        rule, again = "the tree holds texts and no tensors", "model_addition_debugger_context(model, use_repr=False)"
        raise refused(tree, rule, "a safetensors file for each tensor", "none", again)
    return [dumped for path in there.values() if (dumped := _dumped(path, model)) is not None]


def _files_of(root: Any) -> Iterator[str]:
    """The names of the files in a tree, from its root down."""
    open_ = [root]
    while open_:
        node = open_.pop()
        if isinstance(node, dict):
            value = node.get("value")
            if isinstance(value, str) and value.endswith(".safetensors"):
                yield value.removeprefix("./")
            open_ += node.values()
        elif isinstance(node, list):
            open_ += node


def _dumped(path: Path, model: str) -> Dumped | None:
    match = _FILE.fullmatch(path.stem)
    if match is None or not f"{match['path']}.".startswith(f"{model}."):
        return None
    module = match["path"].removeprefix(model).removeprefix(".")
    if not module:
        name = f"inputs.{match['word'] or match['number']}" if match["part"] is None else match["part"]
    elif match["number"] or match["word"]:
        name = f"{module}:input.{match['number'] or _PLACES.get(match['word'], match['word'])}"
    else:
        name = f"{module}:output.{match['part'] or 0}"
    try:
        (dumped,) = read_file(path)
    except ValueError:
        raise refused(path, "it holds more than one tensor, or none", "the one called data", path.name) from None
    return replace(dumped, name=name)
