"""The step chart: where each price lies, what is dotted, and what stands at the axes. Positions are worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from planner.cli.history_chart import Line, Step, chart

START = datetime(2026, 1, 1, tzinfo=UTC)


def step(price: str, first: int, last: int) -> Step:
    return Step(Decimal(price), START + timedelta(days=first), START + timedelta(days=last))


def drawn(*steps: Step, width: int = 29) -> list[str]:
    return chart([Line("", steps)], width=width, unit="USD/h")


def test_a_halved_price_lies_half_as_high_and_what_was_not_looked_at_is_dotted() -> None:
    # 20.00 is five signs, " ┤" two and one to spare: 21 columns for 20 days, so a day is a column; 9 rows from 20 down to 0
    assert drawn(step("20", 0, 8), step("10", 12, 20)) == [
        "USD/h",
        "20.00 ┤━━━━━━━━━...",
        "      │            │",
        "      │            │",
        "      │            │",
        "10.00 ┤            ━━━━━━━━━",
        "      │",
        "      │",
        "      │",
        "    0 ┤",
        "      ┼────────────────────┼",
        "       2026-01-01 2026-01-21",
        "━ seen  . not looked at: it changed somewhere in there",
    ]


def test_a_rise_between_neighbouring_days_has_no_dots() -> None:
    said = drawn(step("10", 0, 9), step("20", 10, 20))
    assert said[1] == "20.00 ┤          ━━━━━━━━━━━"
    assert said[5] == "10.00 ┤━━━━━━━━━━"
    assert not any("." in line.split("┤")[-1] for line in said[1:10])
    assert not any("not looked at" in line for line in said)


def test_near_prices_are_told_apart_and_the_axis_says_that_it_does_not_begin_at_zero() -> None:
    said = drawn(step("20", 0, 10), step("19", 10, 20))
    assert said[0] == "USD/h; the axis begins at 19.00, not at 0"
    assert said[1].startswith("20.00 ┤")
    assert said[9].startswith("19.00 ┤")


def test_the_day_of_a_change_stands_under_the_axis_where_there_is_room() -> None:
    said = drawn(step("20", 0, 50), step("10", 50, 100), width=89)
    days = said[-1]
    assert days.split() == ["2026-01-01", "2026-02-20", "2026-04-11"]
    assert days.index("2026-02-20") == said[-2].rindex("┼", 0, len(said[-2]) - 1)


def test_several_lines_have_letters_a_legend_and_a_sign_where_they_meet() -> None:
    lines = [
        Line("use1-az1", (step("10", 0, 20),)),
        Line("use1-az2", (step("20", 0, 10), step("10", 10, 20))),
    ]
    said = chart(lines, width=29, unit="USD/h")
    assert said[1] == "20.00 ┤bbbbbbbbbbb"
    assert said[8] == "10.00 ┤aaaaaaaaaa***********", "half as high: row 7 of 0 to 14"
    assert "".join(said[-2:]).replace("  ", " ").split() == ["a", "use1-az1", "b", "use1-az2*", "several"]


@pytest.mark.parametrize("width", [32, 50, 80, 120, 300])
def test_it_keeps_to_its_width(width: int) -> None:
    for steps in ((step("98.32", 0, 500), step("55.04", 560, 1000)), (step("0.005", 0, 1),)):
        said = chart([Line("", steps)], width=width, unit="USD/h")
        assert said
        assert max(len(line) for line in said if "not looked" not in line and "begins at" not in line) <= width


def test_a_price_that_was_seen_once_has_no_chart() -> None:
    assert drawn(step("20", 3, 3)) == []
    assert chart([], width=80, unit="USD/h") == []


def test_hours_stand_under_a_short_chart() -> None:
    one = Step(Decimal(20), START, START + timedelta(hours=20))
    assert chart([Line("", (one,))], width=60, unit="USD/h")[-1].split() == ["01-01", "00:00", "01-01", "10:00", "01-01", "20:00"]  # fmt: skip
