"""Authentication: verify tokens, and the scope that a request acts in."""
