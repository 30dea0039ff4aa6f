"""The stack agent: fills one table from many documents."""
