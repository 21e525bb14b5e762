"""The REST API: parses requests, calls the services that the CLI calls, and sends their documents. FastAPI is imported here alone."""
