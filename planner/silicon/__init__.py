"""Step times from measured operator tables (the extra `silicon`), behind `planner.ports.Predictor`."""
