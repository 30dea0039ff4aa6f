"""Gives these tests their desk."""

from desk import desk

__all__ = ["desk"]
