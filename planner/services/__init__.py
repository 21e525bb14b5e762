"""Use-cases, one file each, named by their verb. CLI and API call these and only parse and render."""
