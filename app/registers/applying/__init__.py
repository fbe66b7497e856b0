"""Applies sorted changes to the tables of a register."""
