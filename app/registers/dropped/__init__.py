"""The drop directory: files that wait, that were loaded, and that failed."""
