"""verifyd compared with other stacks that do the same work on the same data."""
