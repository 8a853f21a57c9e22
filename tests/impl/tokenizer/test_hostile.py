"""What comes with a stranger's tokenizer takes little time and memory, or is refused with the limit that it met."""

from __future__ import annotations

import os
from functools import partial

import pytest

from qwen3_encdec.tokenizer import TokenizerError, chat
from qwen3_encdec.tokenizer.chat import render
from qwen3_encdec.tokenizer.limits import limited
from qwen3_encdec.tokenizer.pattern_syntax import translate

USER = {"role": "user", "content": "Hi"}
LOOP = "{% for i in range(99999) %}"
TEMPLATES = {
    "nested ranges": (f"{LOOP}{LOOP}x{'{% endfor %}' * 2}", "seconds|memory|text"),
    "nested ranges without a word": (f"{LOOP}{LOOP}{'{% endfor %}' * 2}", "1 seconds"),
    "lipsum": ("{{ lipsum(10**7) }}", "1 seconds|memory"),
    "indent": ("{{ messages|tojson(indent=10**9) }}", "MiB of memory"),
    "ljust": ("{{ 'x'.ljust(10**10) }}", "MiB of memory"),
    "product": ("{{ 'x' * 10**10 }}", "MiB of memory"),
    "doubling": ("{% set n = namespace(x='ab') %}" + LOOP + "{% set n.x = n.x ~ n.x %}{% endfor %}", "MiB of memory"),
    "much text": ("{{ 'x' * (80 * 2**20) }}", "64 MiB of text|memory"),
}
PATTERNS = [
    *("(a|a)*b", "((a*)*)*b", "(?:a?){30}a{30}", "(a+)+$", "(?:a|b|ab)+c", "(?:ab?){2,}c", "(?i:a|A)*b", "(a|.)*b"),
    *("a*a*a*a*a*b", "((a*a*)a*)a*a*b"),
]
HARMLESS = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    r"[^\r\n\p{L}\p{N}]?\p{L}*\p{L}+(?i:'s|'t)?|\p{N}{1,3}",
    r"(?:ab)+c",
    r"a+|b+|c+|d+|e+|f+",
    r"(a|b)+c",
]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that_takes_too_much_says_which_limit_it_met(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template, met = TEMPLATES[name]
    seconds = 1 if "seconds" in met else 120  # memory is what runs out, however busy the machine is
    monkeypatch.setattr(chat, "limited", partial(limited, seconds=seconds, memory=256 << 20))
    with pytest.raises(TokenizerError, match=met):
        render(template, [USER])


def test_a_template_of_somebody_else_renders_as_before() -> None:
    assert render("{{ messages[0].content }}é\U0001f600", [USER]) == "Hié\U0001f600"


def test_what_a_template_refuses_comes_back_as_it_was_said() -> None:
    with pytest.raises(TokenizerError, match=r"(?s)the template renders the messages.*TemplateError: no such role"):
        render("{{ raise_exception('no such role') }}", [USER])


def test_no_process_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    forked, fork = [], os.fork

    def counted() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", counted)
    monkeypatch.setattr(chat, "limited", partial(limited, seconds=0.2))
    with pytest.raises(TokenizerError):
        render(f"{LOOP}{LOOP}{'{% endfor %}' * 2}", [USER])
    [process] = forked
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_whose_search_explodes_is_refused(pattern: str) -> None:
    with pytest.raises(TokenizerError, match=r"search|repetition without bound|not known"):
        translate(pattern)


@pytest.mark.parametrize("pattern", HARMLESS)
def test_patterns_of_published_tokenizers_are_taken(pattern: str) -> None:
    assert translate(pattern)
