"""The database engines, the register index, and the tables and their migrations."""
