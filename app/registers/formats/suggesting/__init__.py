"""Writes a first mapping for a CSV file with other columns."""
