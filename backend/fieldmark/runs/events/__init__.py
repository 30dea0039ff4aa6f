"""What a run tells: its events, how they are written and followed."""
