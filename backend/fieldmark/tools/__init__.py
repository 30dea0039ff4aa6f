"""The tools of agents. A call is one transaction as one user, on one document."""
