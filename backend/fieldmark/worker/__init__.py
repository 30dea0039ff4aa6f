"""The jobs of the queue, and what keeps them going."""
