"""The pages of the service: start, documentation, errors, and Swagger UI (D96, D97)."""
