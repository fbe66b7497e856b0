"""How fast register files are loaded, and what the service feels of it."""
