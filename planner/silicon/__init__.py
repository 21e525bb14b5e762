"""Step times from measured operator tables (the extra `silicon`), behind `planner.ports.Predictor`."""

from __future__ import annotations

PACKAGE = "aiconfigurator-core"


def installed_version() -> str | None:
    """Return the version of the installed tables, or None; neither they nor anything heavy is imported."""
    from importlib.util import find_spec  # noqa: PLC0415 - looks at folders alone

    if find_spec(PACKAGE.replace("-", "_")) is None:
        return None
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - 20 ms, only where it is there

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None
