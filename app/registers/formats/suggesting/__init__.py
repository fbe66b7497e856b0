"""Writes a first mapping for a CSV file with other columns (D99)."""

from app.registers.formats.suggesting.closest import csv_fault
from app.registers.formats.suggesting.suggestion import (
    SAMPLE_BYTES,
    Suggestion,
    read_sample,
    suggest,
)
from app.registers.formats.suggesting.toml_text import MappingText, mapping_text

__all__ = [
    "SAMPLE_BYTES",
    "MappingText",
    "Suggestion",
    "csv_fault",
    "mapping_text",
    "read_sample",
    "suggest",
]
