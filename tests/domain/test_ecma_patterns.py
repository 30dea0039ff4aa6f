"""Patterns mean what ECMA-262 with the flag `u` says, and what only `regex` knows is refused."""

from __future__ import annotations

import pytest

from fieldmark.domain.ecma_patterns import PatternError, compile_pattern

MATCHES = [
    (r"^\p{L}+$", "Müller"),
    (r"^\P{L}$", "1"),
    (r"^[\p{Lu}\d]+$", "AÉ5"),
    (r"^\p{Script=Greek}\p{General_Category=Uppercase_Letter}$", "αA"),
    (r"^(?<y>\d{4})$", "2024"),
    (r"^(?<n>a)\k<n>$", "aa"),
    (r"^(a)?\1b$", "b"),
    (r"^\D[\D]$", "٣٣"),
    (r"^[^\W]$", "a"),
    (r"^\s$", "\ufeff"),
    (r"^[^]$", "\n"),
    (r"^\uD83D\uDE00\u{1F600}$", "😀😀"),
    (r"^[🙂-🙃]$", "🙂"),
    (r"^\cJ\x41\u0042\0$", "\nAB\0"),
    (r"^[[a&&b]+$", "[&"),
    (r"^[x\-][x-]$", "-x"),
    (r"^\d{3}\-\d{2}\/\.$", "123-45/."),
    (r"\bx\b", "éxé"),
    (r"^[\b]$", "\b"),
    (r"(?<=a.{1,3})b$", "axxb"),
    (r"^(?:a|b){2}?(?=c)(?!d)", "abc"),
]
DIFFERS = [
    (r"^RE\d+$", "RE12\n"),
    (r"^\d$", "٣"),
    (r"^\w$", "é"),
    (r"^[^\W]$", "é"),
    (r"^[\D]$", "5"),
    (r"^\s$", "\x1c"),
    (r"^.$", "\u2028"),
    (r"^[]$", ""),
    (r"^(a)\1$", "ab"),
]
REFUSED = [
    *("(", "[a", "\\", "a**", "a++", "*", "(*FAIL)", "a{,2}", "(?:foo){e<=1}", "}", "]", "(?i)a", "(?P<a>x)", "(?#x)"),
    *("(?>a)", "(?", r"\Ax\Z", r"\p{Nope}", r"\p{L", r"\2(a)", r"[\w-x]", "[z-a]", r"[\B]", r"\u{110000}", r"\X"),
]


@pytest.mark.parametrize(("pattern", "text"), MATCHES)
def test_pattern_matches_as_in_ecma_262(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).search(text)


@pytest.mark.parametrize(("pattern", "text"), DIFFERS)
def test_pattern_does_not_match_what_only_python_would(pattern: str, text: str) -> None:
    assert not compile_pattern(pattern).search(text)


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_not_ecma_262_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)
