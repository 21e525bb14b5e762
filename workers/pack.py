"""The worker as one file: a zipapp that runs with Python alone and is copied to a GPU machine."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

SHEBANG = b"#!/usr/bin/env python3\n"
ENTRY = "import sys\n\nfrom workers.__main__ import main\n\nsys.exit(main())\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that zip knows: equal sources make equal files


def pack(path: Path) -> Path:
    """Write an executable archive of this package at `path` in one step and return where it lies."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", ENTRY)
        for name, text in sorted(_sources(files("workers"), "workers")):
            _add(archive, name, text)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        temporary.write_bytes(SHEBANG + buffer.getvalue())
        temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _sources(folder: Traversable, name: str) -> list[tuple[str, str]]:
    """Return (name in the archive, text) of every Python file below a folder, itself a folder or a place in an archive."""
    found: list[tuple[str, str]] = []
    for item in folder.iterdir():
        if item.is_dir():
            found += _sources(item, f"{name}/{item.name}")
        elif item.name.endswith(".py"):
            found.append((f"{name}/{item.name}", item.read_text(encoding="utf-8")))
    return found


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, date_time=EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
