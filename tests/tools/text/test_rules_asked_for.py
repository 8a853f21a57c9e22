"""Rules that few texts show: each, broken in a copy of our source, is red in the case that asks for it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from qwen3_encdec import tokenizer
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity import check
from qwen3_parity.recording.text import record_tokenization
from qwen3_parity.text.ours import ours, runner_of
from qwen3_parity.text.runner import Runner

CASES = GOLDEN_ROOT / "cases" / "tokenization"
OLDER = {
    "added_overlaps": ("added_tokens", "special_tokens", "sentinels"),
    "added_decoded": ("decoding",),
    "batch_lengths": ("batches",),
    "chat_members": ("chat",),
}
"""Cases that ask for much of the same and stay green."""


class Rule(NamedTuple):
    """Text of a source file in other words, and the case that shows it."""

    case: str
    file: str
    sound: str
    wrong: str


DUMPS = "    return json.dumps(value,"
TEMPLATE = "return environment.from_string(template)"
RULES = {
    "the longest of those that begin alike": Rule(
        "added_overlaps", "added_tokens", "sorted(tokens, key=len, reverse=True)", "sorted(tokens, key=len)"
    ),
    "what is not taken is stepped over whole": Rule(
        "added_overlaps",
        "added_tokens",
        "        for match in pattern.finditer(text):\n",
        "        for match in [m for at in range(len(text)) if (m := pattern.match(text, at))]:\n"
        "            if match.start() < done:\n"
        "                continue\n",
    ),
    "raw added tokens come first": Rule(
        "added_overlaps",
        "added_tokens",
        "raw = _search([token for token in added_tokens if not token.normalized])",
        "raw = _search(list(added_tokens))",
    ),
    "an added token is decoded by the byte map": Rule(
        "added_decoded",
        "tokenizer",
        "[[str], bytes] = to_bytes",
        "[[str], bytes] = lambda piece: (\n"
        "            piece.encode() if piece in [token.content for token in files.added_tokens] else to_bytes(piece)\n"
        "        )",
    ),
    "padding goes beyond max_length": Rule(
        "batch_lengths",
        "batch",
        "length += -length % pad_to_multiple_of",
        "length = min(length + -length % pad_to_multiple_of, max_length or 1 << 30)",
    ),
    "max_length is not rounded": Rule(
        "batch_lengths",
        "batch",
        "    if max_length:\n",
        "    if max_length := max_length // (m := pad_to_multiple_of or 1) * m:\n",
    ),
    "thinking is another name": Rule("chat_members", "chat", '"thinking", "reasoning")', '"reasoning")'),
    "reasoning is another name": Rule("chat_members", "chat", '"thinking", "reasoning")', '"thinking")'),
    "thinking comes before reasoning": Rule(
        "chat_members", "chat", '"thinking", "reasoning")', '"reasoning", "thinking")'
    ),
    "null members are left out": Rule("chat_members", "chat", " if value is not None}", "}"),
    "an empty text is one": Rule("chat_members", "chat", "if name in plain)", "if plain.get(name))"),
    "floats are written as Python does": Rule("chat_members", "chat", DUMPS, "    value = _whole(value)\n" + DUMPS),
    "integers keep all their digits": Rule("chat_members", "chat", DUMPS, "    value = _doubles(value)\n" + DUMPS),
    "keys stay in their order": Rule("chat_members", "chat", DUMPS, "    value = _numbers_first(value)\n" + DUMPS),
    "only what must be is escaped": Rule(
        "chat_members", "chat", "sort_keys=sort_keys)", "sort_keys=sort_keys).replace('\\u2028', '\\\\u2028')"
    ),
    "no tools are none": Rule(
        "chat_members",
        "chat",
        TEMPLATE,
        "return environment.from_string(template.replace('if tools or', 'if tools is not none or'))",
    ),
    "without a system text there are two line ends all the same": Rule(
        "chat_members",
        "chat",
        TEMPLATE,
        "return environment.from_string(template.replace('if tools else', 'if tools and messages[0].content else'))",
    ),
}
OTHER_WRITERS = """

def _whole(value):
    return json.loads(json.dumps(value), parse_float=lambda text: int(n) if (n := float(text)).is_integer() else n)


def _doubles(value):
    return json.loads(json.dumps(value), parse_int=lambda text: int(float(text)))


def _numbers_first(value):
    if not isinstance(value, dict):
        return value
    order = sorted(value, key=lambda key: (not key.isdigit(), int(key) if key.isdigit() else 0))
    return {key: value[key] for key in order}
"""
"""Of JSON, as other languages have them: behind the file where they are called."""


def broken(rule: Rule, folder: Path) -> Any:
    """Our tokenizer's package, with the rule broken, under another name."""
    shutil.copytree(Path(tokenizer.__file__).parent, folder)
    source = folder / f"{rule.file}.py"
    text = source.read_text(encoding="utf-8")
    assert rule.sound in text
    source.write_text(text.replace(rule.sound, rule.wrong) + OTHER_WRITERS * (DUMPS in rule.wrong), encoding="utf-8")
    name = f"broken_{folder.name}"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec and spec.loader
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return importlib.import_module(f"{name}.tokenizer")


def exit_code(case: str, factory: Callable[[pb.Case, Path], Runner], path: Path) -> int:
    golden = read(CASES / f"{case}.pb")
    record_tokenization(golden, path, factory)
    return check(golden, read(path)).exit_code


def copied(module: Any, _: pb.Case, directory: Path) -> Runner:
    return runner_of(module.ByteLevelTokenizer.from_directory(directory))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("says", RULES)
def test_a_rule_that_is_broken_is_red_where_it_is_asked_for_and_green_elsewhere(says: str, tmp_path: Path) -> None:
    rule = RULES[says]
    before = set(sys.modules)
    factory = partial(copied, broken(rule, tmp_path / f"rule_{list(RULES).index(says)}"))
    try:
        assert exit_code(rule.case, factory, tmp_path / "red.pb") == 1
        assert {exit_code(case, factory, tmp_path / "green.pb") for case in OLDER[rule.case]} == {0}
    finally:
        for name in sys.modules.keys() - before:
            if name.startswith("broken_"):
                del sys.modules[name]


@pytest.mark.parametrize("case", OLDER)
def test_with_its_rules_our_tokenizer_is_at_parity(case: str, tmp_path: Path) -> None:
    assert exit_code(case, ours, tmp_path / "ours.pb") == 0


def test_of_keys_that_stand_twice_the_last_counts_in_the_place_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(pairs: list[tuple[str, object]]) -> dict[str, object]:
        return dict(reversed(pairs))

    def last_place(pairs: list[tuple[str, object]]) -> dict[str, object]:
        return {key: value for at, (key, value) in enumerate(pairs) if key not in [name for name, _ in pairs[at + 1 :]]}

    for hook in (first, last_place):
        loads = partial(json.loads, object_pairs_hook=hook)
        monkeypatch.setattr("qwen3_parity.text.ours.json", SimpleNamespace(loads=loads))
        assert exit_code("chat_members", ours, tmp_path / "ours.pb") == 1
        if hook is last_place:
            assert exit_code("chat", ours, tmp_path / "ours.pb") == 0
