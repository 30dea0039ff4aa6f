"""The extraction agent without a language model: fixed rules."""
