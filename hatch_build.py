"""Build hook: publishes the shipped tables as snapshot 0 before files are collected for a wheel or an editable install."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PublishShippedSnapshot(BuildHookInterface):  # type: ignore[type-arg]
    """Runs `pricing.publish`, which needs the standard library alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write `pricing/tables/snapshot-0.sqlite` from the CSV tables."""
        del version
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from pricing.publish import publish_shipped  # noqa: PLC0415 - the package is importable only now

            path = publish_shipped()
        finally:
            sys.path.remove(str(root))
        build_data["artifacts"].append(path.relative_to(root).as_posix())
