"""The speed of loads of register files, and their effect on the service."""
