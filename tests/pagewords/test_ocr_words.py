from __future__ import annotations

import pytest

from pagewords.ocr import line_words

CORNERS = [[0.0, 0.0], [100.0, 0.0], [100.0, 10.0], [0.0, 10.0]]


def character_parts(*words: str) -> list[tuple[str, float, list[list[float]]]]:
    return [(word, 0.9 - n / 100, [[10 * n, 0], [10 * n + 8, 0], [10 * n + 8, 9]]) for n, word in enumerate(words)]


def test_chinese_and_japanese_characters_are_joined_into_words() -> None:
    # The engine returns each character separately if a line has such a character.
    words = line_words("合計 ¥132,000 円", 0.9, CORNERS, character_parts(*"合計¥132,000円"))
    assert [word.text for word in words] == ["合計", "¥132,000", "円"]
    assert [(word.x0, word.x1) for word in words] == [(0, 18), (20, 98), (100, 108)]
    assert words[1].confidence == 0.9 - 9 / 100


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("16-03-201812:07:10", ["16-03-2018", "12:07:10"]),
        ("16-03-2018", ["16-03-2018"]),
        ("A-16-03-20181", ["A-16-03-20181"]),
    ],
)
def test_date_and_time_without_a_space_become_two_words(text: str, words: list[str]) -> None:
    assert [word.text for word in line_words(text, 0.9, CORNERS, character_parts(text))] == words
