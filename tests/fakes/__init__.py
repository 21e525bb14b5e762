"""Stand-ins of the project's own for services on the network, for tests."""
