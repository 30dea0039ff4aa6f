"""Drives the Agent SDK: the only user of it."""
