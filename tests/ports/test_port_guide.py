"""docs/port-to-another-language.md: its formulas reach parity, its tables are the data's."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, read, tensor, to_bfloat16, write
from qwen3_golden.op_table import OP_TABLE
from qwen3_parity import check, mistakes
from qwen3_parity.cli import main
from qwen3_parity.conformance.requests import request_for
from qwen3_parity.folder.levels import LEVELS
from qwen3_parity.judge.candidates import golden_names
from qwen3_parity.recording.record import record

TEXT = (GOLDEN_ROOT.parent / "docs" / "port-to-another-language.md").read_text(encoding="utf-8")
CODE = "".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
CASES = GOLDEN_ROOT / "cases"


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its first two lines; each cell as its code spans."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    return [[", ".join(re.findall("`([^`]+)`", cell)).replace("\\|", "|") for cell in line] for line in cells]


MISTAKES = rows("How an answer looks when a formula is wrong")


def formulas(code: str = CODE) -> Any:
    names: dict[str, Any] = {"np": np}
    exec(compile(code, "docs/port-to-another-language.md", "exec"), names)
    return SimpleNamespace(**names)


def by_the_page(page: Any, op: str) -> Callable[..., Any]:
    """The page's function of an op, with what the page says otherwise than the table of ops."""

    def mask(encoder: Any, decoder: Any, query: int, window: int) -> Any:
        size = window or np.inf
        return page.encoder_mask(encoder, size) if decoder is None else page.decoder_mask(decoder, query, size, encoder)

    def inv_freq(head_dim: int, theta: float, **yarn: Any) -> Any:
        return page.inv_freq(head_dim, theta, SimpleNamespace(**yarn) if yarn else None)

    otherwise: Mapping[str, Callable[..., Any]] = {
        "embedding": lambda ids, weight: weight[ids],
        "head_norm": page.rms_norm,
        "inv_freq": inv_freq,
        "rope": lambda q, k, cos, sin: tuple(page.rope(x, cos, sin) for x in (q, k)),
        "mask": mask,
    }
    return otherwise.get(op) or getattr(page, op)


def answered(page: Any, golden: Recording, path: Path) -> Path:
    """The op's case as the page computes it, in float64 and stored in the golden's dtype."""
    tensors = {item.info.name: item.values().astype(np.float64) if item.is_float else item.values() for item in golden}
    op, numbers = golden.case.op, {attribute.key: attribute.value for attribute in golden.case.attributes}
    outputs = OP_TABLE[op].computed(by_the_page(page, op), tensors, numbers)

    def computed(item: Any) -> Any:
        if item.info.name not in outputs:
            return item
        y = np.ascontiguousarray(outputs[item.info.name])
        y = to_bfloat16(y.astype(np.float32)) if item.info.dtype == pb.BF16 else y.astype(item.array.dtype)
        return tensor(item.info.name, y, dtype=item.info.dtype, axes=item.info.axes, op=item.info.op)

    write(path, replace(golden, tensors=[computed(item) for item in golden]))
    return path


OP_CASES = sorted(path.stem for path in (CASES / "op").glob("[!n]*.pb"))


@pytest.mark.parametrize("name", OP_CASES)
def test_the_guides_formula_is_at_parity_on_an_op_alone(name: str, tmp_path: Path) -> None:
    golden = CASES / "op" / f"{name}.pb"
    verdicts = check(golden, answered(formulas(), read(golden), tmp_path / "page.pb"))
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))


def stored(folder: Path) -> dict[str, Array]:
    """A checkpoint's weights in float64, by their names within the model."""
    parts = [load_file(file) for file in folder.glob("*.safetensors")]
    return {name.removeprefix("model."): np.float64(value) for part in parts for name, value in part.items()}


def below(weights: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The weights whose names begin so, without it."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def network(page: Any) -> Callable[..., Any]:
    """The page's layers as an implementation of network cases: layer outputs, final norms and logits."""

    def factory(case: Any, checkpoints: Mapping[str, Path]) -> Any:
        config = case.config
        weights = {role: stored(folder) for role, folder in checkpoints.items()}
        yarn = config.rope_scaling if config.rope_scaling.rope_type else None
        inv_freq = np.float32(page.inv_freq(config.head_dim, config.rope_theta, yarn))

        def stack(role: str, x: Array, table: Any, mask: Callable[[Any], Array], tap: Any, *more: Any) -> Array:
            w = weights[role]
            for index in range(config.num_hidden_layers):
                window = config.sliding_window if config.layer_types[index] == "sliding_attention" else np.inf
                cache = caches[index] if role == "decoder" else {}
                x = page.layer(x, below(w, f"layers.{index}."), config, table, mask(window), cache, *more)
                tap(f"{role}.layers.{index}.output", x)
            x = page.rms_norm(x, w["norm.weight"], config.rms_norm_eps)
            tap(f"{role}.norm", x)
            if role == "decoder":
                head = "embed_tokens.weight" if config.tie_word_embeddings else "lm_head.weight"
                tap("logits", page.linear(x, w[head]))
            return x

        def table(positions: Array) -> Any:
            return page.rope_table(positions, inv_freq, config.rope_scaling.attention_factor if yarn else 1)

        caches: list[dict[str, Array]] = [{} for _ in range(config.num_hidden_layers)]

        def run(case: Any, inputs: Mapping[str, Array], tap: Any, records: Any) -> None:
            def at(step: int) -> Any:
                return lambda name, value: tap(name, step, np.float32(value))

            def embedded(role: str, ids: Array) -> Array:
                return weights[role]["embed_tokens.weight"][ids]

            encoder: list[Any] = []
            real = None
            if "encoder" in weights:
                real = inputs["input.encoder_attention_mask"]
                angles = table(inputs["input.encoder_position_ids"])
                x = embedded("encoder", inputs["input.encoder_input_ids"])
                x = stack("encoder", x, angles, partial(page.encoder_mask, real), at(0))
                encoder = [x, angles if config.rotate_encoder_keys else None]
            for step, length in enumerate(case.steps):
                stop = sum(case.steps[: step + 1])
                now = slice(stop - length, stop)
                decoder_real = inputs["input.decoder_attention_mask"][:, :stop]
                angles = table(inputs["input.decoder_position_ids"][:, now])
                x = embedded("decoder", inputs["input.decoder_input_ids"][:, now])
                visible = partial(page.decoder_mask, decoder_real, length, encoder_real=real)
                stack("decoder", x, angles, visible, at(step), *encoder)

        taps = [f"{role}.{name}" for role in checkpoints for name in ("layers.{layer}.output", "norm")]
        taps += ["logits"] if "decoder" in checkpoints else []
        run.run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=taps)  # type: ignore[attr-defined]
        return run

    return factory


@pytest.mark.parametrize(
    "name",
    [f"decoder/{name}" for name in ("plain", "ragged_decode", "window_chunks", "yarn_stated")]
    + [f"encoder/{name}" for name in ("window_odd", "ragged")]
    + [f"encdec/{name}" for name in ("ragged", "unrotated", "window", "qwen2")],
)
def test_the_guides_layers_are_at_parity_in_a_network(name: str, tmp_path: Path) -> None:
    golden = read(CASES / f"{name}.pb")
    record(golden, tmp_path / "page.pb", network(formulas()))
    verdicts = check(CASES / f"{name}.pb", tmp_path / "page.pb")
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))


@pytest.mark.parametrize(("correct", "wrong", "case", "name"), MISTAKES, ids=[f"{m[3]} {m[1]}" for m in MISTAKES])
def test_a_mistake_of_the_guide_has_the_answer_that_it_shows(
    correct: str, wrong: str, case: str, name: str, tmp_path: Path
) -> None:
    assert CODE.count(correct) == 1
    path = answered(formulas(CODE.replace(correct, wrong)), read(CASES / f"{case}.pb"), tmp_path / "wrong.pb")
    judged = CliRunner().invoke(main, ["diagnose", str(path), "--json"])
    assert judged.exit_code == 1
    assert json.loads(judged.stdout)["faults"][0]["explanations"][0]["name"] == name


def test_the_guides_order_is_that_of_the_levels_with_their_cases() -> None:
    assert {level: cases.split(", ") for level, cases, _ in rows("In this order")} == {
        level: list(globs) for level, globs in LEVELS.items()
    }
    assert [row[0] for row in rows("In this order")] == list(LEVELS)


OP_ROWS = rows("The cases of one op")


def tensors(cell: str) -> list[tuple[str, tuple[str, ...], bool]]:
    """Of each tensor in a cell of the table of op cases: name, axes, whether it may be absent."""
    every = re.findall(r"(\w+)(\??)\[([^]]*)\]", cell)
    return [(name, tuple(axes.split(", ")), bool(may)) for name, may, axes in every]


def test_the_guides_op_cases_are_the_table_of_ops() -> None:
    written = {op: (tensors(operands), numbers, tensors(outputs)) for op, operands, numbers, outputs in OP_ROWS}
    assert list(written) == list(OP_TABLE)
    for op, row in OP_TABLE.items():
        operands, numbers, outputs = written[op]
        for cell, rows in ((operands, row.operands), (outputs, row.outputs)):
            assert cell == [(each.name.partition(".")[2], each.axes, each.optional) for each in rows], op
        marked = {f"{name}?" if name in row.optional else name for name in row.kinds}
        assert set(filter(None, numbers.split(", "))) == marked, op


def test_weights_come_rounded_over_the_pipe_and_operands_in_their_own_dtype(tmp_path: Path) -> None:
    def request(name: str) -> Recording:
        (tmp_path / "request.pb").write_bytes(request_for(name, golden_names()).recording)
        return read(tmp_path / "request.pb")

    for case in ("decoder/bfloat16", "encdec/bfloat16", "models/qwen3-8b"):
        weights = [item for item in request(case) if item.info.name.startswith("parameter.")]
        assert weights and {item.info.dtype for item in weights} == {pb.F32}
        bits = [np.ascontiguousarray(item.array).view(np.uint32) & 0xFFFF for item in weights]
        assert not any(array.any() for array in bits)  # rounded, or stored in bfloat16
    narrow = request("op/rms_norm_bfloat16")
    assert {item.info.dtype for item in narrow} == {pb.BF16}


def test_a_port_may_leave_the_minor_version_of_the_schema_at_0(tmp_path: Path) -> None:
    golden = CASES / "generation" / "equal_logits.pb"
    message = pb.Recording.FromString(golden.read_bytes())
    assert message.header.schema_minor > 0
    message.header.schema_minor = 0
    (tmp_path / "own.pb").write_bytes(message.SerializeToString())
    assert check(golden, tmp_path / "own.pb").word == "parity"
    minors = {pb.Recording.FromString(path.read_bytes()).header.schema_minor for path in CASES.rglob("*.pb")}
    assert f"is up to {max(minors)} and no reason to refuse it" in " ".join(TEXT.split())


def test_every_mistake_that_the_guides_prose_names_is_in_the_library() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(mistakes.__file__).parent.glob("*.py"))
    named = re.findall(r"`([a-z]+\.[a-z_]+)`", TEXT.partition("A decode step that goes wrong")[2].partition("\n## ")[0])
    assert len(named) > 5 and not [name for name in named if f'"{name}"' not in source]


def encodings() -> list[pb.Encoding]:
    return [
        encoding for path in sorted(CASES.glob("tokenization/*.pb")) for encoding in read(path).tokenization.encoding
    ]


def test_the_guides_byte_map_makes_the_symbols_of_every_text() -> None:
    symbols = formulas().byte_symbols()
    assert len(set(symbols)) == 256 and all(symbol.isprintable() for symbol in symbols)
    pieces = [(s.normalized, p) for encoding in encodings() for s in encoding.segment for p in s.pre_token]
    assert len(pieces) > 1000
    for text, piece in pieces:
        assert piece.symbols == "".join(symbols[byte] for byte in text[piece.begin : piece.end].encode())


def test_the_guides_spans_of_pre_tokens_are_half_open_in_characters_and_in_bytes() -> None:
    for encoding in encodings():
        for segment in encoding.segment:
            content = segment.normalized.encode()
            for piece in segment.pre_token:
                text = segment.normalized[piece.begin : piece.end]
                assert text and content[piece.begin_byte : piece.end_byte] == text.encode()


def test_segments_meet_without_a_gap_and_never_overlap() -> None:
    for encoding in encodings():
        ends = [segment.end for segment in encoding.segment]
        assert [segment.begin for segment in encoding.segment] == [0, *ends][: len(ends)]
        assert all(segment.begin < segment.end for segment in encoding.segment) and ends[-1:] == [
            len(encoding.text)
        ] * bool(ends)


def test_the_offsets_that_the_guide_shows_are_the_goldens() -> None:
    table = re.findall(r'^\| `(".+?")` \| `([(), 0-9]+)` \|', TEXT, re.MULTILINE)
    recorded = {
        encoding.text: " ".join(f"({span.begin}, {span.end})" for span in encoding.offset) for encoding in encodings()
    }
    assert len(table) == 3
    for text, offsets in table:
        assert recorded[ast.literal_eval(text)] == offsets


def test_the_guides_hangul_is_that_of_unicode() -> None:
    page = formulas()
    for syllable in range(0xAC00, 0xD7A4):
        parts = page.hangul_parts(syllable)
        assert "".join(map(chr, parts)) == unicodedata.normalize("NFD", chr(syllable))
        joined = parts[0]
        for part in parts[1:]:
            joined = page.hangul_joined(joined, part)
        assert joined == syllable
    around = [0x10FF, 0x1100, 0x1112, 0x1113, 0x1160, 0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2, 0x11C3]
    for first in [*around, 0xABFF, 0xAC00, 0xAC01, 0xAC1C, 0xD788, 0xD7A3, 0xD7A4]:
        for second in around:
            pair = chr(first) + chr(second)
            joined = page.hangul_joined(first, second)
            assert unicodedata.normalize("NFC", pair) == (pair if joined is None else chr(joined))


def test_the_guide_has_the_taps_of_the_plain_causal_case_with_their_axes_in_order() -> None:
    table = [
        (tap, axes.split(", "))
        for taps, axes, _ in rows("The plain causal case, tap by tap")
        for tap in taps.split(", ")
    ]
    first = (t.info for t in read(CASES / "decoder" / "plain.pb") if t.info.step == 0)
    taps = [(i.name, list(i.axes)) for i in first if not re.match(r"input\.|decoder\.layers\.[1-9]", i.name)]
    assert table == taps
