"""Prompts: what they count, and that tokenizing can be undone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_bench.engine.errors import EngineError
from breakeven_bench.engine.prompts import (
    count_tokens,
    detokenize,
    digest,
    encode,
    render_chat,
    render_prompt,
    tokenize,
)


@pytest.mark.parametrize("content", [None, 5, {"text": "x"}])
def test_a_message_without_text_is_only_its_mark(content):
    assert render_chat([{"role": "user", "content": content}]) == b"<|user|>\n<|end|>\n<|assistant|>\n"


def test_no_message_at_all_still_asks_for_an_answer():
    assert render_chat([]) == b"<|assistant|>\n"


def test_a_message_without_a_role_does_not_break_the_prompt():
    assert b"<|None|>" in render_chat([{"content": "hi"}])


def test_half_a_surrogate_pair_is_no_text():
    with pytest.raises(EngineError, match="TextEncodeInput") as caught:
        render_chat([{"role": "user", "content": "cut \ud83d here"}])
    assert (caught.value.status, caught.value.type) == (400, "BadRequestError")
    assert encode("cut \U0001f600 here") == b"cut \xf0\x9f\x98\x80 here"


def test_an_empty_prompt_counts_one_token():
    assert count_tokens(b"") == 1


def test_tokens_that_were_never_ours_become_replacement_characters_or_nothing():
    assert detokenize([0, 1, 0x1FF]) == "�"


def test_the_parts_of_a_message_are_joined_and_an_image_counts_as_one():
    parts = [{"type": "text", "text": "ab"}, {"type": "image_url", "image_url": {"url": "data:..."}}, "odd"]
    plain = count_tokens(render_chat([{"role": "user", "content": "ab"}]))
    assert count_tokens(render_chat([{"role": "user", "content": parts}])) == plain + 2 * 256


def test_tools_are_part_of_the_prompt():
    tools = [{"type": "function", "function": {"name": "now"}}]
    assert b'{"name": "now"}' in render_chat([], tools)


@given(st.text())
def test_what_was_tokenized_comes_back(text):
    assert detokenize(tokenize(encode(text))) == text


@given(st.binary(min_size=1))
def test_there_are_as_many_tokens_as_were_counted(prompt):
    assert len(tokenize(prompt)) == count_tokens(prompt)


@given(st.text(min_size=1))
def test_a_prompt_as_tokens_is_the_prompt_as_text(text):
    assert render_prompt(tokenize(encode(text))) == render_prompt(text)


@given(st.lists(st.binary(max_size=4), max_size=3), st.lists(st.binary(max_size=4), max_size=3))
def test_different_inputs_have_different_digests_however_they_are_cut(one, other):
    assert (digest(*one) == digest(*other)) == (one == other)
    assert 0 <= digest(*one) < 2**64
