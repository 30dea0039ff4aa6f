"""Uploaded files: uploaded, read into pages and words, drawn as images."""
