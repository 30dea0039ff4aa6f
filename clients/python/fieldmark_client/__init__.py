"""A typed client of Fieldmark's API. See README.md."""

from fieldmark_client.clients import AsyncFieldmark, Fieldmark, Upload, Uploaded
from fieldmark_client.errors import FieldmarkError, InvalidSignature
from fieldmark_client.webhooks import verify_webhook

__all__ = ["AsyncFieldmark", "Fieldmark", "FieldmarkError", "InvalidSignature", "Upload", "Uploaded", "verify_webhook"]
