"""Uploaded files: taken in, read into pages and words, drawn as images."""
