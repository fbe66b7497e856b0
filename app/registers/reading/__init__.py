"""Reads the files of a load: bytes in, sorted changes out."""
