from __future__ import annotations

import struct
import zlib

import pytest
from PIL import Image

from generated_files import encode
from pagewords import sniff
from pagewords.errors import Unreadable
from pagewords.image import Images
from pagewords.pages import Limits

RED, WHITE = (255, 0, 0), (255, 255, 255)


def half_red_image() -> Image.Image:
    image = Image.new("RGB", (40, 20), WHITE)
    image.paste(RED, (0, 0, 20, 20))
    return image


def is_similar_color(color: object, expected: tuple[int, int, int]) -> bool:
    assert isinstance(color, tuple)
    return all(abs(a - b) < 12 for a, b in zip(color, expected, strict=True))


@pytest.mark.parametrize(
    ("orientation", "size", "red_at"), [(1, (40, 20), (5, 10)), (3, (40, 20), (35, 10)), (6, (20, 40), (10, 5))]
)
def test_photo_is_rotated_as_exif_says(orientation: int, size: tuple[int, int], red_at: tuple[int, int]) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image, width, height = Images(encode(half_red_image(), "JPEG", exif=exif), sniff.JPEG, Limits()).frame(1, 1000)
    assert (width, height) == image.size == size
    assert is_similar_color(image.getpixel(red_at), RED)


def test_image_is_reduced_but_reports_its_full_size() -> None:
    data = encode(Image.new("L", (900, 300)), "PNG")
    image, width, height = Images(data, sniff.PNG, Limits()).frame(1, 100)
    assert (width, height) == (900, 300)
    assert image.size in ((100, 33), (100, 34))
    with pytest.raises(OSError, match="cannot identify"):
        Images(data, sniff.JPEG, Limits())


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("1", "TIFF"), ("1", "PNG"), ("1", "BMP"), ("P", "PNG"), ("P", "GIF"), ("P", "TIFF"), ("I;16", "PNG"),
     ("I;16", "TIFF"), ("LA", "PNG"), ("RGBA", "PNG"), ("CMYK", "TIFF"), ("L", "PNG"), ("I", "TIFF")],
)  # fmt: skip
def test_image_of_any_depth_is_reduced_to_the_same_picture(mode: str, kind: str) -> None:
    image = Image.new("L", (90, 30), 255)
    image.paste(0, (0, 0, 45, 30))
    if mode.startswith("I"):
        image = image.convert("I").point(lambda level: level * 200)
    image = image.convert(mode)
    media_type = {"PNG": sniff.PNG, "TIFF": sniff.TIFF, "BMP": sniff.BMP, "GIF": sniff.GIF}[kind]
    reduced, width, height = Images(encode(image, kind), media_type, Limits()).frame(1, 20)
    assert (width, height, reduced.mode, reduced.size[0]) == (90, 30, "RGB", 20)
    assert is_similar_color(reduced.getpixel((4, 3)), (0, 0, 0)) and is_similar_color(reduced.getpixel((15, 3)), WHITE)


@pytest.mark.parametrize("mode", ["P", "RGBA", "LA"])
def test_transparent_pixels_of_a_reduced_image_are_white(mode: str) -> None:
    image = Image.new("RGBA", (90, 30), (0, 0, 0, 0)).convert(mode)
    options: dict[str, object] = {"transparency": 0} if mode == "P" else {}
    reduced, _, _ = Images(encode(image, "PNG", **options), sniff.PNG, Limits()).frame(1, 20)
    assert is_similar_color(reduced.getpixel((10, 3)), WHITE)


def test_transparent_pixels_are_white() -> None:
    image, _, _ = Images(encode(Image.new("RGBA", (4, 4), (0, 0, 0, 0)), "WEBP"), sniff.WEBP, Limits()).frame(1, 10)
    assert is_similar_color(image.getpixel((1, 1)), WHITE)


def test_16_bit_image_is_scaled_to_8_bits() -> None:
    deep = Image.new("I;16", (2, 1))
    deep.putpixel((0, 0), 1000)
    deep.putpixel((1, 0), 3000)
    image, _, _ = Images(encode(deep, "PNG"), sniff.PNG, Limits()).frame(1, 10)
    assert (image.getpixel((0, 0)), image.getpixel((1, 0))) == ((0, 0, 0), WHITE)


def test_tiff_frames_are_pages_up_to_the_limit() -> None:
    tiff = encode(
        half_red_image(),
        "TIFF",
        save_all=True,
        append_images=[Image.new("RGB", (10, 10)), Image.new("1", (30, 10))],
    )
    images = Images(tiff, sniff.TIFF, Limits(max_pages=3))
    assert images.page_count == 3
    assert [images.frame(number, 100)[1:] for number in (3, 1, 2)] == [(30, 10), (40, 20), (10, 10)]
    with pytest.raises(Unreadable, match="more than 2 pages"):
        Images(tiff, sniff.TIFF, Limits(max_pages=2))


def test_image_bomb_is_refused_by_its_declared_size() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 0, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    with pytest.raises(Unreadable, match=r"400 megapixels \(20,000 × 20,000\); the limit is 100"):
        Images(bomb, sniff.PNG, Limits()).frame(1, 1000)
