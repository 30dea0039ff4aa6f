"""An extraction as a file for others: JSON, CSV, XLSX, and a page of HTML that shows where each value stands."""
