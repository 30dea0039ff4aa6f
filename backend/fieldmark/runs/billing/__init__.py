"""What a run costs: prices, and the meter that charges."""
