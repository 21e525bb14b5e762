"""Where the performance model meets measurements: rows read, parameters fitted, errors counted. Nothing here answers a request."""
