"""The real client of the SDK, led to the loopback AWS: few attempts, no pauses, no configuration of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from fakes.aws_server import FakeAws
from fakes.aws_world import World

from pricing.aws.pace import TokenBucket
from pricing.aws.session import Access, Aws
from pricing.source import Ask
from pricing.static import load_tables

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TABLES = load_tables()
KNOWN = frozenset(i.instance_type for i in TABLES.instance_types if i.provider == "aws")


def alone(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Leave the SDK nothing of this machine but `variables`."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "PLANNER_AWS_PRICE_LIST_URL", "PLANNER_AWS_SPOT_ADVISOR_URL"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    given = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"} | variables  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pricing.aws.session.ATTEMPTS", 2)
    monkeypatch.setattr("pricing.aws.paging.PAUSE_S", 0)
    monkeypatch.setattr("pricing.aws.session.PRICING_BUCKET", TokenBucket(1e6, 1_000_000))


@contextmanager
def door_to(fake: FakeAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """Yield the door to AWS that leads to the loopback AWS."""
    alone(monkeypatch, AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    aws = Aws(Access(endpoint_url=fake.url))
    try:
        yield aws
    finally:
        aws.close()


def loopback(**how: Any) -> FakeAws:
    """Return the loopback AWS of `NOW`."""
    return FakeAws(world=World(now=NOW), **how)


def asking(region: str | None = "us-east-1", **how: Any) -> Ask:
    """Return what a refresh asks, with the shipped chips and types."""
    return Ask(**{"region": region, "at": NOW, "chips": TABLES.accelerators, "instance_types": KNOWN} | how)
