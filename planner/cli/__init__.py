"""The command line: parses, calls the same services as the API, renders. Heavy imports happen inside the verb that needs them."""
