"""Fieldmark reads documents and fills databases."""
