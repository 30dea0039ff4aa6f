"""Pure rules of the field: no input, no output, no clock."""
