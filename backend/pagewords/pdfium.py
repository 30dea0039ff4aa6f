"""PDFium functions with plain integers as handles: twice as fast to call as with pypdfium2's typed pointers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

pdfium: Any = pypdfium2.raw  # C functions without types

Handle = int
"""A pointer of PDFium as a number."""

TEXT_OBJECT, FORM_OBJECT = int(pdfium.FPDF_PAGEOBJ_TEXT), int(pdfium.FPDF_PAGEOBJ_FORM)
IMAGE_OBJECT, PATH_OBJECT = int(pdfium.FPDF_PAGEOBJ_IMAGE), int(pdfium.FPDF_PAGEOBJ_PATH)
CURVE, MOVE = int(pdfium.FPDF_SEGMENT_BEZIERTO), int(pdfium.FPDF_SEGMENT_MOVETO)


def address(handle: Any) -> int:
    """Return the integer of a typed pointer, for the functions of this module."""
    number = ctypes.cast(handle, ctypes.c_void_p).value
    assert number is not None
    return number


def saved(document: Any, flags: int) -> bytes | None:
    """Return the document as file bytes, or None if PDFium cannot save it."""
    out = bytearray()

    def write(_: Any, block: int, size: int) -> int:
        out.extend(ctypes.string_at(block, size))
        return 1

    writer: Any = pdfium.FPDF_FILEWRITE(version=1)
    writer.WriteBlock = type(writer.WriteBlock)(write)
    return bytes(out) if pdfium.FPDF_SaveAsCopy(document, ctypes.byref(writer), flags) else None


def _bind(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(result, *arguments)(address(getattr(pdfium, name)))


_handle, _integer = ctypes.c_void_p, ctypes.c_int
get_unicode = _bind("FPDFText_GetUnicode", ctypes.c_uint, _handle, _integer)
has_map_error = _bind("FPDFText_HasUnicodeMapError", _integer, _handle, _integer)
get_loose_box = _bind("FPDFText_GetLooseCharBox", _integer, _handle, _integer, _handle)
count_objects = _bind("FPDFPage_CountObjects", _integer, _handle)
get_angle = _bind("FPDFText_GetCharAngle", ctypes.c_float, _handle, _integer)
get_origin = _bind("FPDFText_GetCharOrigin", _integer, _handle, _integer, _handle, _handle)
get_object = _bind("FPDFPage_GetObject", _handle, _handle, _integer)
count_parts = _bind("FPDFFormObj_CountObjects", _integer, _handle)
get_part = _bind("FPDFFormObj_GetObject", _handle, _handle, ctypes.c_ulong)
get_type = _bind("FPDFPageObj_GetType", _integer, _handle)
set_active = _bind("FPDFPageObj_SetIsActive", _integer, _handle, _integer)
text_object = _bind("FPDFText_GetTextObject", _handle, _handle, _integer)
get_font = _bind("FPDFTextObj_GetFont", _handle, _handle)
is_embedded = _bind("FPDFFont_GetIsEmbedded", _integer, _handle)
get_font_flags = _bind("FPDFFont_GetFlags", _integer, _handle)
glyph_path = _bind("FPDFFont_GetGlyphPath", _handle, _handle, ctypes.c_uint, ctypes.c_float)
get_render_mode = _bind("FPDFTextObj_GetTextRenderMode", _integer, _handle)
count_segments = _bind("FPDFPath_CountSegments", _integer, _handle)
get_segment = _bind("FPDFPath_GetPathSegment", _handle, _handle, _integer)
get_segment_type = _bind("FPDFPathSegment_GetType", _integer, _handle)
get_point = _bind("FPDFPathSegment_GetPoint", _integer, _handle, _handle, _handle)
get_bounds = _bind("FPDFPageObj_GetBounds", _integer, *[_handle] * 5)
get_matrix = _bind("FPDFPageObj_GetMatrix", _integer, _handle, _handle)
get_draw_mode = _bind("FPDFPath_GetDrawMode", _integer, _handle, _handle, _handle)
get_stroke_width = _bind("FPDFPageObj_GetStrokeWidth", _integer, _handle, _handle)
get_fill_color = _bind("FPDFPageObj_GetFillColor", _integer, *[_handle] * 5)
get_bitmap = _bind("FPDFImageObj_GetBitmap", _handle, _handle)
get_image_size = _bind("FPDFImageObj_GetImagePixelSize", _integer, _handle, _handle, _handle)
destroy_bitmap = _bind("FPDFBitmap_Destroy", None, _handle)
_is_generated = _bind("FPDFText_IsGenerated", _integer, _handle, _integer)
_get_box = _bind("FPDFText_GetCharBox", _integer, _handle, _integer, *[_handle] * 4)
_MIN_INK_POINTS, _MAX_SLANT_QUARTERS = 0.05, 0.001


def has_ink(layer: Handle, index: int) -> bool:
    """Return whether a character of a text layer is a glyph with an area, unlike a space. The box of a slanted space
    has an area too, so slanted characters have no ink."""
    quarters = get_angle(layer, index) / (math.pi / 2)
    if abs(quarters - round(quarters)) > _MAX_SLANT_QUARTERS:
        return False
    left, right, bottom, top = [ctypes.c_double() for _ in range(4)]
    if _is_generated(layer, index) or not _get_box(layer, index, *map(ctypes.addressof, (left, right, bottom, top))):
        return False
    return right.value - left.value > _MIN_INK_POINTS < top.value - bottom.value
