"""What agents may do: one call is one transaction as one user, on one document."""
