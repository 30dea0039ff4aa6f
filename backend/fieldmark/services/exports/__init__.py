"""Exports: an extraction as JSON, CSV, XLSX, or one HTML page that shows where each value is printed."""
