"""Runs: start, queue, execute with the Agent SDK, approve calls, record and stream events."""
