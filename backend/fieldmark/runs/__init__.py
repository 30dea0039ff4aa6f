"""One run: launched, queued, driven through the Agent SDK, gated, recorded as events, streamed."""
