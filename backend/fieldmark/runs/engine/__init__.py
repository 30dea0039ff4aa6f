"""Drives the Agent SDK. No other folder imports it."""
