"""Engines, the register index, and the schema of what is stored."""
