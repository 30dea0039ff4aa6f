from __future__ import annotations

from fieldmark.services.page_images import PageImages


def test_most_recently_used_images_stay_cached():
    images = PageImages(max_bytes=10)
    for key in "abc":
        images.keep(key, b"1234")
        images.get("a")
    assert [images.get(key) for key in "abc"] == [b"1234", None, b"1234"]
    images.keep("d", b"x" * 11)
    assert [images.get(key) for key in "abcd"] == [None] * 4
