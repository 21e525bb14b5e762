"""Which price snapshot a request means, and for which moment it asks."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pytest

from planner.recommend.as_of import PATTERN, as_of, moment_of

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PUBLISHED = datetime(2026, 11, 28, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize("name", ["latest", "shipped", "c307ed", "C307ED0990042ff4", "20260720"])
def test_the_name_of_a_snapshot_is_kept_as_it_is_written(name: str) -> None:
    assert as_of(name) == name
    assert re.fullmatch(PATTERN, name)


def test_a_day_is_a_day() -> None:
    assert as_of("2026-07-20") == date(2026, 7, 20)


@pytest.mark.parametrize("text", ["", "c307e", "snapshot", "2026-7-1", "20.7.2026", "c307ed ", "../../x", "a" * 65])
def test_what_names_nothing_says_what_would(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a day, YYYY-MM-DD, or the name of a snapshot: shipped, latest, an id"):  # fmt: skip
        as_of(text)
    assert not re.fullmatch(PATTERN, text)


def test_a_day_that_does_not_exist_says_so() -> None:
    with pytest.raises(ValueError, match=r"must be a day that exists \(day is out of range for month\), YYYY-MM-DD"):
        as_of("2026-02-30")


@pytest.mark.parametrize(
    ("asked", "moment"),
    [
        (None, NOW),
        ("latest", NOW),
        (date(2026, 11, 30), NOW),  # today is not over
        (date(2026, 11, 27), datetime(2026, 11, 27, 23, 59, 59, 999999, tzinfo=UTC)),
        ("c307ed", PUBLISHED),  # the same tomorrow
        ("shipped", PUBLISHED),
    ],
)
def test_moment_that_is_asked_for(asked: date | str | None, moment: datetime) -> None:
    assert moment_of(asked, now=NOW, published_at=PUBLISHED) == moment


def test_a_snapshot_of_a_clock_that_is_ahead_is_no_future() -> None:
    assert moment_of("c307ed", now=PUBLISHED, published_at=NOW) == PUBLISHED
