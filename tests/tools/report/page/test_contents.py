"""What the page is made of: its data, its sentence, and names out of recordings that would rather be HTML.

It runs `diagnosis.tap_elements`, too.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read, tensor
from qwen3_golden.writer import write
from qwen3_parity import check
from qwen3_parity.diagnosis.mistake import Mistake, Note
from qwen3_parity.judge.elements import elements
from qwen3_parity.report.page import plots
from qwen3_parity.report.page.contents import Report, contents, sentence, worst_taps
from qwen3_parity.report.page.html import embedded, html
from qwen3_parity.report.page.mistakes import mistakes_of

CASES = GOLDEN_ROOT / "cases"
HOSTILE = "</script><img src=x onerror=alert(1)>&'\"<!--\u2028"
Q_ROPE, SCORES = "decoder.layers.0.self_attn.q_rope", "decoder.layers.0.self_attn.scores"
FILED = {name: name.replace("self_attn", "merged_attn") for name in (Q_ROPE, SCORES)}


class Page(HTMLParser):
    """The tags and links of a page, and its data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)
        matched = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
        assert matched is not None
        self.data: dict[str, Any] = json.loads(matched.group(1))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_the_first_screen_has_the_verdict_the_mistake_and_its_fix(seeded) -> None:
    page = html(seeded.report)
    body = page[: page.index("<script")]
    (headline,) = re.findall("<h1[^>]*>(.*)</h1>", body)
    assert headline == "Divergence in decoder/plain: it pairs adjacent channels (interleaved) instead of halves"
    assert "<code>rope.interleaved</code>" in body
    assert "x * cos + cat(-x[d/2:], x[:d/2]) * sin" in body
    assert "decoder.layers.*.self_attn.q_rope" in body and "15 of 15 taps wrong" in body


def test_a_mistake_of_two_places_stands_once(seeded) -> None:
    mistakes = mistakes_of(seeded.diagnosis)
    assert [mistake.name for mistake in mistakes] == ["rope.interleaved"]
    assert [place.rpartition(".")[2] for place in mistakes[0].places] == ["q_rope", "k_rope"]
    assert mistakes[0].link == ("decoder/plain", Q_ROPE, 0)


def test_every_tap_has_a_row_with_the_run_and_the_op_alone(seeded) -> None:
    case = contents(seeded.report)["cases"][0]
    assert len(case["rows"]) == len(seeded.diagnosis.verdicts.taps)
    row = next(row for row in case["rows"] if case["names"][row[0]] == SCORES and row[1] == 0)
    assert row[3] > 1e4 and row[4] < 1  # far off in the run, right alone
    tap = next(tap for tap in seeded.diagnosis.verdicts.taps if (tap.name, tap.step) == (FILED[SCORES], 0))
    assert row[3] == pytest.approx(tap.share, rel=1e-2)
    assert (
        row[6] == pytest.approx(read(CASES / "decoder/plain.pb")[FILED[SCORES], 0].info.floor.rms, rel=1e-2)
        or row[6] > 0
    )


def test_taps_that_are_wrong_alone_are_looked_at_first(seeded) -> None:
    places = [tap.name.rpartition(".")[2] for tap in worst_taps(seeded.diagnosis.verdicts.taps, 5)]
    assert set(places[:2]) == {"q_rope", "k_rope"} and "scores" in places


def test_a_picture_has_the_largest_error_and_both_values(seeded) -> None:
    case = contents(seeded.report)["cases"][0]
    index = next(i for i in case["pictures"] if case["names"][case["rows"][i][0]] == Q_ROPE)
    picture, row = case["pictures"][index], case["rows"][index]
    actual, golden = (read(path)[FILED[Q_ROPE], row[1]].array for path in (seeded.path, CASES / "decoder/plain.pb"))
    at, ours, expected, _ = picture["worst"][0]
    assert (ours, expected) == (actual[tuple(at)], golden[tuple(at)])
    assert max(map(max, picture["heat"])) == pytest.approx(np.abs(actual - golden).max(), rel=1e-2)
    assert picture["axes"] == ("query", "head_dim") and picture["unit"] == "rounding units"
    assert sum(count for _, count in picture["bins"]) == actual.size


def test_probabilities_are_shown_by_heads_and_keys() -> None:
    axes = ("batch", "heads", "query", "key")
    zeros = tensor("probs", np.zeros((1, 3, 2, 200), np.float32), axes=axes)
    ones = zeros.array.copy()
    ones[0, 2, 1, 150] = 0.5
    picture = elements(tensor("probs", ones, axes=axes), zeros, None)
    assert picture.axes == ("heads", "key") and picture.heat.shape == (3, 64)
    (cell,) = np.argwhere(picture.heat)
    assert cell[0] == 2 and picture.starts[1][cell[1]] <= 150 < picture.starts[1][cell[1] + 1]
    assert picture.worst[0].index == (0, 2, 1, 150) and len(picture.worst) == 1


def test_what_is_not_judged_has_no_error() -> None:
    golden = tensor("x", np.zeros((2, 3), np.float32), axes=("query", "hidden"))
    ours = tensor("x", np.array([[1, 1, 1], [0, 2, 0]], np.float32), axes=("query", "hidden"))
    picture = elements(ours, golden, np.array([[False], [True]]))
    assert picture.heat.tolist() == [[0, 0, 0], [0, 2, 0]] and sum(count for _, count in picture.bins) == 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_infinitely_far(value: float) -> None:
    golden = tensor("x", np.ones((1, 2), np.float32), axes=("query", "hidden"))
    ours = tensor("x", np.array([[value, 1]], np.float32), axes=("query", "hidden"))
    picture = elements(ours, golden, None)
    assert picture.heat[0, 0] == math.inf and picture.bins[-1] == (math.inf, 1) and picture.worst[0].ulps is None


@pytest.mark.parametrize("shape", [(), (0, 4), (1,), (70, 130)])
def test_tensors_of_any_shape_have_a_map(shape: tuple[int, ...]) -> None:
    item = tensor("x", np.ones(shape, np.float32))
    picture = elements(item, item, None)
    assert picture.heat.shape[0] <= 32 and picture.heat.shape[1] <= 64 and not picture.heat.any() and not picture.worst


def test_sentences_say_how_many_cases_and_what_is_behind_them(seeded) -> None:
    good, bad = check(CASES / "op/rope.pb", CASES / "op/rope.pb"), seeded.diagnosis.verdicts
    assert sentence(Report([])) == "Nothing was checked"
    assert sentence(Report([good])) == "Parity in op/rope"
    assert sentence(Report([good, good])) == "Parity in all 2 cases"
    mistake = Mistake("rope.interleaved", ("pairs neighbours",), cases=("decoder/plain",))
    behind = "one mistake behind it: it pairs neighbours"
    assert sentence(Report([good, bad], [mistake])) == f"1 of 2 cases without parity, {behind}"
    assert sentence(Report([good, bad], [mistake, mistake])) == "1 of 2 cases without parity: 2 mistakes are behind it"
    both = "Divergence in decoder/plain: it pairs neighbours, and it pairs neighbours"
    assert sentence(Report([bad], [mistake, mistake])) == both
    assert sentence(Report([bad], [mistake] * 4)) == f"{both}, and 2 more mistakes"
    unnamed = Mistake("", ("something else",), cases=("decoder/plain",))
    assert sentence(Report([good, bad], [unnamed])) == "1 of 2 cases without parity"


def test_a_place_without_a_name_for_its_mistake_stands_in_the_sentence(seeded) -> None:
    wrong = "decoder.layers.*.self_attn.q_rope is wrong on its own inputs"
    assert sentence(Report([seeded.diagnosis.verdicts])) == f"Divergence in decoder/plain: {wrong}"


def test_a_refused_file_is_no_parity_of_everything() -> None:
    from qwen3_golden import ParityError

    good = check(CASES / "op/rope.pb", CASES / "op/rope.pb")
    refused = ParityError("x.pb", "it is no recording", expected="one", got="none", next_step="look")
    assert "1 file was refused" in sentence(Report([good], refused=[refused]))


def test_a_page_about_nothing_claims_nothing() -> None:
    page = html(Report([]))
    assert "Nothing was checked" in page and '<h1 class="bad">' in page


def test_the_page_asks_nothing_from_elsewhere(seeded) -> None:
    page = Page(html(seeded.report))
    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    assert page.links and all(link.startswith("#") for link in page.links)


def test_names_out_of_recordings_are_no_html(tmp_path: Path) -> None:
    golden = read(CASES / "op" / "rope.pb")
    provenance = pb.Provenance(producer=HOSTILE)
    path = tmp_path / "odd.pb"
    extra = tensor(HOSTILE, np.ones(3, np.float32), op=HOSTILE)
    write(path, replace(golden, provenance=provenance, tensors=[*golden.tensors, extra]))
    case = pb.Case(name=HOSTILE, description=HOSTILE)
    verdicts = replace(check(CASES / "op" / "rope.pb", path), case=case)
    odd, note = (HOSTILE,), (Note(HOSTILE, (HOSTILE,)),)
    mistake = Mistake(HOSTILE, odd, HOSTILE, odd, odd, odd, note, note, note, odd, (HOSTILE, HOSTILE, 0))
    history = [{"schema": 1, "label": HOSTILE, "cases": {HOSTILE: _past(HOSTILE)}}]
    page = Page(html(Report([verdicts, verdicts], [mistake], missing=[HOSTILE], history=history)))
    assert page.tags.count("script") == 3 and "img" not in page.tags and not page.handlers
    assert page.data["cases"][0]["name"] == HOSTILE and all(link.startswith("#") for link in page.links)


def _past(text: str) -> dict[str, Any]:
    return {"verdict": text, "worst": 1.0, "where": text, "ops": {text: 1.0}}


def test_data_within_a_script_ends_nothing() -> None:
    text = embedded({HOSTILE: [HOSTILE, 1.5, None]})
    assert not set("<>&\u2028") & set(text) and json.loads(text) == {HOSTILE: [HOSTILE, 1.5, None]}


def test_only_the_pages_own_scripts_may_run(seeded) -> None:
    page = html(seeded.report)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.group(1).split(";"))
    assert rules["default-src"] == "'none'" and "unsafe" not in rules["script-src"]
    assert rules["script-src"].count("sha256-") == page.count("<script>") == 2


def test_the_page_brings_what_draws_its_plots_with_its_licence(seeded) -> None:
    folder = Path(plots.__file__).parent / "vega"
    licence = (folder / "LICENSE").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^  (\S+) .* SHA-256 ([0-9a-f]{64})$", licence, re.MULTILINE))
    assert stated == {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.js")}
    assert licence in html(seeded.report) and "sourceMappingURL" not in html(seeded.report)


def test_the_page_is_two_megabytes_at_most_beside_its_data(seeded) -> None:
    page = html(seeded.report)
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None and len(page.encode()) - len(data.group(1)) < 2_000_000


def test_texts_show_both_sides_with_the_first_difference(tmp_path: Path) -> None:
    golden = read(CASES / "tokenization" / "numbers.pb")
    tokenization = pb.Tokenization()
    tokenization.CopyFrom(golden.tokenization)
    changed = next(encoding for encoding in tokenization.encoding if len(encoding.id) > 2)
    changed.id[2] += 1
    write(tmp_path / "x.pb", replace(golden, tokenization=tokenization))
    case = contents(Report([check(CASES / "tokenization/numbers.pb", tmp_path / "x.pb")]))["cases"][0]
    (text,) = case["texts"]
    assert text["name"] == changed.name and text["stage"] == "ids" and text["at"] == 2
    assert text["actual"][2] != text["expected"][2] and text["actual"][:2] == text["expected"][:2]


def test_what_was_not_compared_is_listed_with_the_reason(tmp_path: Path) -> None:
    golden = read(CASES / "decoder" / "plain.pb")
    left = [item for item in golden if not item.info.name.endswith(".scores")]
    run = pb.Run.FromString(golden.run.SerializeToString())
    patterns = [pattern for pattern in run.materialised if not pattern.endswith(".scores")]
    run.ClearField("materialised")
    run.materialised.extend(patterns)
    write(tmp_path / "x.pb", replace(golden, tensors=left, run=run))
    case = contents(Report([check(golden, tmp_path / "x.pb")]))["cases"][0]
    assert case["coverage"]["not_materialised"] == [("decoder.layers.*.self_attn.scores", 15)]


def test_another_candidate_stands_beside_each_tap(seeded) -> None:
    parity = check(CASES / "decoder/plain.pb", CASES / "decoder/plain.pb", seeded.weights)
    case = contents(replace(seeded.report, against=[parity]))["cases"][0]
    row = next(row for row in case["rows"] if case["names"][row[0]] == Q_ROPE)
    assert row[3] > 1 and row[12] == 0 and isinstance(row[13], float)
    assert case["other"]["good"] and case["other"]["mended"] > 100 and not case["other"]["broken"]


def test_both_sides_say_where_they_come_from(seeded) -> None:
    rows = {label: (golden, ours) for label, golden, ours in contents(seeded.report)["cases"][0]["provenance"]}
    assert rows["file"] == ("cases/decoder/plain.pb", "decoder/plain.pb") and rows["arithmetic"] == ("f32", "f32")
    assert rows["digest"][0] == read(CASES / "decoder/plain.pb").digest.hex() != rows["digest"][1]


def test_the_head_has_the_model_and_the_day_of_the_file(seeded, tmp_path: Path) -> None:
    run, path = read(seeded.path), tmp_path / "decoder" / "plain.pb"
    path.parent.mkdir()
    write(path, replace(run, provenance=pb.Provenance(producer="MyQwen3")))
    for seconds, day in ((86_400 * 365, "1971-01-01"), (86_400 * 367 - 1, "1971-01-02")):
        os.utime(path, (0, seconds))
        page = html(Report([check(CASES / "decoder/plain.pb", path)]))
        assert f"Qwen3 parity · decoder/plain · MyQwen3 on tied-decoder · file of {day}</p>" in page


def test_no_path_of_this_machine_is_in_a_page(seeded) -> None:
    refused = ParityError(seeded.path.parent / "x.pb", "no", expected="a", got="b", next_step="c")
    report = replace(seeded.report, against=[seeded.diagnosis.verdicts], refused=[refused])
    page = html(report)
    assert str(GOLDEN_ROOT) not in page and str(seeded.path.parent) not in page and "x.pb: no" in page


def test_the_tap_where_it_begins_is_shown_element_by_element(seeded) -> None:
    case = contents(seeded.report)["cases"][0]
    wrong = [index for index, row in enumerate(case["rows"]) if isinstance(row[4], float) and row[4] > 1]
    assert wrong[0] in case["pictures"] and len(case["pictures"]) == 14


def test_a_mistake_says_in_which_cases_it_stands_before_anything_is_opened(seeded) -> None:
    bad, good = seeded.diagnosis.verdicts, check(CASES / "op/rope.pb", CASES / "op/rope.pb")
    mistake = Mistake("rope.interleaved", ("pairs neighbours",), cases=(bad.case.name,), evidence=("evidence",))
    page = html(Report([bad, good], [mistake]))
    card = page[page.index('id="mistake-1"') : page.index("<details")]
    assert '<b>In</b> 1 of 1 red case: <a href="#case=decoder%2Fplain">decoder/plain</a>' in card
    rows = page[page.index('<section id="cases"') :].split("<tr")[2:]
    assert ['href="#mistake-1"' in row for row in rows[:2]] == [True, False]
