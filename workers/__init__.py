"""What was measured, on which machine. A leaf: knows neither `planner` nor `pricing`; needs no third-party package to import."""
