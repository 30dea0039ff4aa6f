"""Costs of runs: prices, and the meter that charges messages."""
