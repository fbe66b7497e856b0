"""Reads the files of a load into sorted changes."""
