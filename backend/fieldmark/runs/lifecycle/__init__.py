"""Operations on runs: start, queue, decide, cancel, and their representation in the API."""
