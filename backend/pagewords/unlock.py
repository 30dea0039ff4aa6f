"""Remove the password from protected files: PDF, and Office files since 2007 (DOCX, XLSX, PPTX)."""

from __future__ import annotations

import importlib
import io
from typing import Any

import msoffcrypto.exceptions  # pyright: ignore[reportMissingTypeStubs]
import msoffcrypto.format.ooxml  # pyright: ignore[reportMissingTypeStubs]

from pagewords.errors import Damaged, PasswordProtected, Unsupported
from pagewords.pages import Limits
from pagewords.pdf import Pdf

# msoffcrypto imports them late, after lockdown.
for _name in ("xml.dom.expatbuilder", "cryptography.hazmat.backends.openssl.backend"):
    importlib.import_module(_name)

_ooxml: Any = msoffcrypto.format.ooxml  # pyright: ignore
_errors: Any = msoffcrypto.exceptions  # pyright: ignore
_WRONG = "The password is wrong for this file."
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def remove_password(data: bytes, password: str, limits: Limits) -> bytes | None:
    """Return the file without its password, or None if it has none. Raise PasswordProtected if the password is wrong,
    Unsupported for other kinds of protected files."""
    if data.startswith(_OLE) and "EncryptedPackage".encode("utf-16-le") in data:
        return _remove_from_office(data, password)
    if b"%PDF-" in data[:1024]:
        return _remove_from_pdf(data, password, limits)
    if data.startswith(b"PK"):
        raise Unsupported("Archives with a password are not supported: unpack the archive, and upload its files.")
    return None


def _remove_from_pdf(data: bytes, password: str, limits: Limits) -> bytes | None:
    try:
        Pdf(data, limits)
    except PasswordProtected:
        pass
    else:
        return None
    # New PDFs encode the password as UTF-8, old ones as Latin-1.
    for encoding in ("utf-8", "latin-1"):
        try:
            return Pdf(data, limits, password.encode(encoding)).saved_without_password()
        except (PasswordProtected, UnicodeEncodeError):
            continue
    raise PasswordProtected(_WRONG)


def _remove_from_office(data: bytes, password: str) -> bytes:
    if not password:  # msoffcrypto would treat an empty password as no password
        raise PasswordProtected(_WRONG)
    out = io.BytesIO()
    try:
        file = _ooxml.OOXMLFile(io.BytesIO(data))
        file.load_key(password=password, verify_password=True)
        file.decrypt(out)
    except _errors.InvalidKeyError:
        raise PasswordProtected(_WRONG) from None
    except (_errors.FileFormatError, _errors.ParseError) as error:
        raise Damaged("The Office document is damaged: it cannot be decrypted.") from error
    return out.getvalue()
