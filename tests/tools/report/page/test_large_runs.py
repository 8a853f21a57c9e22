"""A network of 28 layers over a dozen steps: the page stays small, and the browser is given a part of it at a time."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from qwen3_golden import pb
from qwen3_parity.judge.budgets import Shares
from qwen3_parity.judge.compare import Metrics
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Problem, Verdict, Verdicts
from qwen3_parity.report.page.contents import Report, contents
from qwen3_parity.report.page.html import html

LAYERS, STEPS = 28, 12
PLACES = {
    "input": "copy",
    "input_layernorm": "rms_norm",
    "attn_residual": "residual",
    "output": "residual",
    **{f"merged_attn.{name}_proj": "linear" for name in "qkvo"},
    **{f"merged_attn.{name}_norm": "head_norm" for name in "qk"},
    **{f"merged_attn.{name}_rope": "rope" for name in "qk"},
    "merged_attn.scores": "scores",
    "merged_attn.probs": "softmax",
    "merged_attn.context": "context",
    "merged_attn.cache_keys": "cache",
    "merged_attn.cache_values": "cache",
    "merged_attn.mask": "mask",
    "post_attention_layernorm": "rms_norm",
    "mlp.act": "swiglu",
    **{f"mlp.{name}_proj": "linear" for name in ("gate", "up", "down")},
}


def tap(name: str, step: int, op: str, draw: random.Random) -> Verdict:
    """A tap that is beyond its budget, RoPE by itself and everything else only in the run."""
    share, alone = 10 ** draw.uniform(1, 6), 10 ** draw.uniform(1, 6) if op == "rope" else draw.random()
    metrics = Metrics(1000, 999, share * 1e-7, share * 1e-6, (0, 1, 2), 12345, row=share * 1e-6, row_index=(0, 1))
    rule, got = "further from the golden than honest arithmetic goes", f"{share:.9g} at [0, 1, 2]"
    where, next_step = f"{name} (step {step})", f"qwen3-parity show x.pb --tap {name}"
    problem = Problem(where, rule, "RMS error ≤ 1e-07", got, next_step, share)
    return Verdict(
        name, step, op, False, metrics, Shares(share, share, share, 0), problem, OpVerdict(name, step, op, share=alone)
    )


@pytest.fixture(scope="module")
def large() -> Report:
    draw = random.Random(0)
    taps = [
        tap(f"decoder.layers.{layer}.{place}", step, op, draw)
        for step in range(STEPS)
        for layer in range(LAYERS)
        for place, op in PLACES.items()
    ]
    case = pb.Case(name="capture/large", mode=pb.CAUSAL)
    return Report([Verdicts(case, "golden.pb", "candidate.pb", pb.ARITHMETIC_F32, pb.EAGER, taps)])


def test_eight_thousand_red_taps_are_a_megabyte(large: Report) -> None:
    shown = contents(large)
    assert len(shown["cases"][0]["rows"]) == LAYERS * STEPS * len(PLACES) > 7000
    assert len(json.dumps(shown)) < 1_000_000


def test_problems_in_words_are_those_of_the_taps_that_are_wrong_alone(large: Report) -> None:
    case = contents(large)["cases"][0]
    ops = {case["ops"][case["rows"][index][2]] for index in case["problems"]}
    assert ops == {"rope"} and len(case["problems"]) == 150


@pytest.mark.slow
def test_the_browser_is_given_some_of_the_rows(large: Report, tmp_path: Path, browser) -> None:
    (tmp_path / "page.html").write_text(html(large), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("#map-body .cell")
    assert page.locator("#rows tbody tr").count() == 40
    assert page.locator("#map-body .cell").count() == LAYERS * len(PLACES)
    page.get_by_role("button", name="Show more").click()
    assert page.locator("#rows tbody tr").count() == 80
    page.fill("#search", "layers.27.mlp.down")
    assert page.locator("#count").inner_text() == f"{STEPS} of {LAYERS * STEPS * len(PLACES)}"
    spent = page.evaluate(
        "(({domInteractive, loadEventEnd}) => loadEventEnd)(performance.getEntriesByType('navigation')[0])"
    )
    print(f"\n{LAYERS * STEPS * len(PLACES)} taps: loaded and drawn within {spent / 1000:.2f} s")
    page.close()
