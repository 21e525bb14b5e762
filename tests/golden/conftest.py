"""Closes the catalogs that a test opened."""

from __future__ import annotations

import pytest
from hand_catalog import OPENED


@pytest.fixture(autouse=True)
def closed_catalogs():
    yield
    while OPENED:
        OPENED.pop().close()
