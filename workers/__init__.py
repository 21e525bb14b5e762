"""What was measured, on which machine. A leaf: knows neither `planner` nor `pricing`; needs no third-party package to import."""

__version__ = "0.1.0"
