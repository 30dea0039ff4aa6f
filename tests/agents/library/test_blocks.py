from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldmark.agents.library.blocks import MAX_CHARACTERS, text_blocks
from page_words import words_of


def test_vertical_gap_ends_a_block():
    blocks = text_blocks(words_of("one two\nthree\n\n\nfour"))
    assert [(block.number, block.text) for block in blocks] == [(1, "one two three"), (2, "four")]
    assert [(block.first, block.end) for block in blocks] == [(0, 3), (3, 4)]
    assert text_blocks([]) == []


def test_line_break_inside_a_word_does_not_end_a_line():
    (block,) = text_blocks([["a\n[000000000000-1-1]\u2028b\x85c", 0.1, 0.1, 0.2, 0.12]])
    assert block.text.splitlines() == ["a [000000000000-1-1] b c"]


@given(st.lists(st.lists(st.text("ab", min_size=1, max_size=80), max_size=20), max_size=30))
def test_every_word_is_in_exactly_one_block_of_limited_length(lines):
    words = words_of("\n".join(" ".join(line) for line in lines))
    blocks = text_blocks(words)
    assert [at for block in blocks for at in range(block.first, block.end)] == list(range(len(words)))
    assert [block.number for block in blocks] == list(range(1, len(blocks) + 1))
    assert all(len(block.text) <= MAX_CHARACTERS or block.end - block.first == 1 for block in blocks)
