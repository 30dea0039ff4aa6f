"""Who acts: tokens in, a scope out."""
