from __future__ import annotations

from fieldmark.domain.likeness import Likeness


def like(kind: str, labels: str) -> Likeness:
    return Likeness(kind, frozenset(labels))


def test_invoices_are_alike_whatever_their_layout() -> None:
    assert like("invoice", "abcd").is_like(like("invoice", "xyz"))
    assert not like("invoice", "abcd").is_like(like("receipt", "abcd"))


def test_other_documents_are_alike_if_they_share_most_labels_and_at_least_four() -> None:
    assert like("form", "abcdef").is_like(like("form", "abcd"))
    assert not like("form", "abcdefg").is_like(like("form", "abcd"))
    assert not like("form", "abc").is_like(like("form", "abc"))
