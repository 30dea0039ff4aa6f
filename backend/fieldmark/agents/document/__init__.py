"""The document agent: a conversation on one document."""
