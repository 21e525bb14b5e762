"""One refresh at a time: a lock that the system lets go of when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pricing.refresh.errors import NotWritable, RefreshBusy

REFRESH_LOCK = "refresh.lock"
PUBLISH_LOCK = "publish.lock"


@contextmanager
def only_refresh(folder: Path) -> Iterator[None]:
    """Hold the lock of a data directory, made if need be; RefreshBusy at once when another process holds it."""
    with _locked(folder / REFRESH_LOCK, wait=False):
        yield


@contextmanager
def only_publisher(folder: Path) -> Iterator[None]:
    """Hold the right to publish the next snapshot, waiting for whoever has it.

    Held from the reading of the newest snapshot to the publishing of the one made from it, seconds at most: what another process
    publishes in between (an imported sheet, say) would be lost from the next.
    """
    with _locked(folder / PUBLISH_LOCK, wait=True):
        yield


@contextmanager
def _locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold a lock. The file stays: were it deleted, two processes could each hold a lock on a file of that name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as e:
        raise NotWritable(
            f"{path}: cannot be written: {e.strerror}; set PLANNER_DATA_DIR to a folder that can be written"
        ) from e
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as e:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            who = f"process {holder}" if holder.isdecimal() else "another process"
            raise RefreshBusy(f"{path}: {who} is refreshing the prices; wait until it has ended") from e
        except OSError as e:
            raise NotWritable(f"{path}: cannot be locked: {e.strerror}") from e
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as e:
            raise NotWritable(f"{path}: cannot be written: {e.strerror}; nothing was changed") from e
        yield
    finally:
        os.close(descriptor)
