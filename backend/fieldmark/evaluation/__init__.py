"""Scores what the agent reads against what people know to be right."""
