"""Fieldmark reads documents and fills databases."""

__version__ = "0.1.0"
