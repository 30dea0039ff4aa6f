"""A Messages API on loopback that answers by rules or by script, so that everything else is real without a key."""
