"""What the process tells of itself: logs, metrics, spans."""
