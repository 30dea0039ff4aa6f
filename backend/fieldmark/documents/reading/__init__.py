"""From bytes to pages: one file a format, run in a limited subprocess."""
