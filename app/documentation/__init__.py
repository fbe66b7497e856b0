"""The pages of the service: start, documentation, errors, and Swagger UI."""
