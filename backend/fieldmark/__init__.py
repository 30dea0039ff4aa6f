"""Fieldmark reads documents and fills databases."""

from importlib.metadata import version

__version__ = version("fieldmark")
