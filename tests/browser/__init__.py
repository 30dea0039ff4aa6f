"""Tests of the web UI in Chromium. A package, so that its tests share one browser per worker."""
