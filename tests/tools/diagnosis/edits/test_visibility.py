"""What an edit of a mask lets queries see, and the line that reads the mask."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from by_taps import firsts, golden, weights

from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.grammar.masks import masks
from qwen3_parity.diagnosis.edits.grammar.values import values
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.diagnosis.edits.visibility import visibility
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import network
from qwen3_spec.graph import Line


def test_the_line_of_scores_is_said_where_they_hide_something_with_the_edit_alone() -> None:
    """A step of a window whose keys are all seen."""
    scores, line = np.array([[[[1.0, 2.0, 3.0, 4.0]]]]), Line(file="modeling_x.py", number=7, function="forward")
    hidden = np.where(np.arange(4) > 0, scores, -1e30)
    nodes = [SimpleNamespace(op=op, lines=(line,), reads=()) for op in ("add.Tensor", "softmax.int")]
    region = SimpleNamespace(
        order=[0, 1], base={0: scores, 1: scores / 10}, node=nodes.__getitem__, values=lambda _: {0: hidden, 1: hidden}
    )
    otherwise = visibility(cast(Any, region), Edit("edit.mask", "", PLAIN, {}))
    assert otherwise is not None and otherwise.reader == line
    assert otherwise.says == "the oldest visible key is hidden (1 of 4 cells)"


def test_padding_that_the_query_of_a_step_sees_is_called_so() -> None:
    """A key that another row's query sees is hidden by no window."""
    visible = np.array([[[[0, 0, 1, 1]]], [[[0, 1, 1, 1]]]], bool)
    node = SimpleNamespace(op="softmax.int", lines=(), reads=())
    region = SimpleNamespace(
        order=[0, 1],
        base={0: visible, 1: np.ones(visible.shape)},
        node=lambda _: node,
        values=lambda _: {0: ~visible | visible},
    )
    otherwise = visibility(cast(Any, region), Edit("edit.mask", "", PLAIN, {}))
    assert otherwise is not None and otherwise.says == "padding keys are seen, hidden keys are seen (3 of 8 cells)"


def test_what_padded_queries_see_is_not_told() -> None:
    """The row behind the first one is read, and the second is of padding."""
    visible = np.array([[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]], bool)
    moved, node = np.roll(visible, -1, 2), SimpleNamespace(op="softmax.int", lines=(), reads=())
    region = SimpleNamespace(
        order=[0, 1], base={0: visible, 1: np.ones(visible.shape)}, node=lambda _: node, values=lambda _: {0: moved}
    )
    for queries, says in (
        ([True, True, False], "keys ahead are seen (2 of 9 cells)"),
        ([False, False, True], "each query's own, newest key is hidden, visible keys are hidden (2 of 9 cells)"),
        ([False, False, False], ""),
    ):
        otherwise = visibility(cast(Any, region), Edit("edit.mask", "", PLAIN, {}), np.array([queries]))
        assert says == ("" if otherwise is None else otherwise.says)


def test_a_query_that_sees_the_key_ahead_is_told() -> None:
    """Of padding it sees none: no query does."""
    visible = np.tril(np.ones((1, 1, 4, 4), bool)) & (np.arange(4) > 0)
    call = cast(Any, SimpleNamespace(plain=lambda: visible))
    change = dict(masks("and", visible, ()))["sees the key ahead of each query, too"]
    ahead = np.tril(np.ones((4, 4)), 1) * (np.arange(4) > 0)
    np.testing.assert_array_equal(change(call)[0, 0, 1:], ahead[1:])
    case, attention = "model/gemma3", "model.layers.0.self_attn"
    tensors = [item for item in golden(case) if not item.info.name.endswith((".probs", "attn[1]"))]
    recorded = replace(golden(case), tensors=tensors)
    here = target(network(golden(case), recorded, weights(case)), f"{attention}.context", 0)
    assert here is not None
    edit = next(each for each in values(here.region) if each.says == "sees the key ahead of each query, too")
    context = here.predicted(edit)
    assert context is not None
    (first,) = firsts(case, {f"{attention}.context": context}, f"{attention}.probs")
    assert first.startswith("edit.mask: sees the key ahead of each query, too: keys ahead are seen (")


def test_a_window_on_both_sides_may_lose_one_and_a_causal_one_has_none_to_lose() -> None:
    far = np.arange(9)[:, None] - np.arange(9)
    window = (far >= -1) & (far <= 2)
    call = cast(Any, SimpleNamespace(plain=lambda: window))
    visible = {says: change(call) for says, change in masks("and", window, ()) if "window" in says}
    assert (
        visible["has its window behind each query alone, all of it, not on both sides"] == ((far >= 0) & (far < 4))
    ).all()
    assert (visible["has no end of its window on the side ahead"] == (far <= 2)).all()
    assert (visible["has the two sides of its window exchanged"] == ((far >= -2) & (far <= 1))).all()
    for without in (far >= 0, (far >= 0) & (far < 4), far < 3):
        assert not [says for says, _ in masks("and", without, ()) if "window" in says]
    assert not [says for says, _ in masks("and", window, [window]) if "window" in says]


def test_weights_lose_their_diagonal_or_keep_it() -> None:
    """Of what is no square, or shows what is ahead, nothing is said."""
    whole = np.arange(1.0, 17).reshape(4, 4)
    lower, before = np.tril(whole), np.tril(whole, -1)
    for product, says, result in (
        (lower, "leaves out its diagonal, each position's own", before),
        (before, "keeps its diagonal, each position's own, too", lower),
    ):
        ((words, change),) = masks("mul", product, [whole, -1])
        call = cast(Any, SimpleNamespace(plain=lambda x=product: x, operands=(whole, -1)))
        assert words == says
        np.testing.assert_array_equal(change(call), result)
    for product in (whole, lower[:3], lower[:1, :1], np.zeros_like(whole)):
        assert not [*masks("mul", product, [whole])]


def test_a_decayed_product_of_a_chunk_without_its_diagonal_is_told() -> None:
    case, norm = "model/qwen3_next", "model.layers.0.linear_attn.norm"
    here = target(network(golden(case), golden(case), weights(case)), norm, 0)
    assert here is not None
    answers = list[str]()
    for site, (value, *_) in here.region.sites.items():
        product = here.region.base[value]
        if site.op == "mul.Tensor" and product.ndim == 5 and [*masks("mul", product, ())]:
            wrong = here.predicted(Edit("", "", PLAIN, {site: lambda call: np.tril(call.plain(), -1)}))
            if wrong is not None and not np.allclose(wrong, here.truth):
                answers += firsts(case, {norm: wrong})
    (said,) = answers
    assert said.startswith("edit.mask: leaves out its diagonal, each position's own, at modeling_qwen3_next.py:")


def test_keys_of_blocks_before_a_querys_own_that_are_hidden_are_told() -> None:
    """In every step, or where there are several queries: a kernel that works by blocks forgets the earlier ones."""
    changes = dict(masks("and", np.ones((1, 1, 5, 5), bool), ()))
    for visible, everywhere, of_several in (
        (np.tril(np.ones((1, 1, 5, 5), bool)), [1, 2, 1, 2, 1], [1, 2, 1, 2, 1]),
        (np.ones((1, 1, 1, 6), bool), [2], [6]),
    ):
        call = cast(Any, SimpleNamespace(plain=lambda visible=visible: visible))
        says = "hides the blocks of 2 keys before each query's own"
        for words, counts in ((says, everywhere), (f"{says} where there are several queries", of_several)):
            assert changes[words](call).sum(-1).ravel().tolist() == counts
