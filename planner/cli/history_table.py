"""The text of `prices history`: which list price was seen when, how spot prices moved, and the charts of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import ABSENT, DASH, age, count, day_of, figure
from planner.cli.history_chart import Line, Step, chart
from planner.cli.list_tables import bought_cell, money_column, price_text, purchase, short
from planner.cli.output import printable
from planner.cli.paint import BAD, CARE, GOOD, QUIET, STRONG, Cell, Column, rendered, table
from planner.services.documents import after_clock, age_hours
from planner.services.list_history import KEY_FIELDS

Document = Mapping[str, Any]
MOST_CHARTS = 3
MOST_ZONES = 8
UNLISTED = "not in the newest list"


def history_text(
    document: Document,
    *,
    most: int,
    spot_hint: str,
    seen_until: Mapping[str, datetime],
    now: datetime,
    width: int,
    colour: bool,
) -> str:
    """Return the history for a terminal of `width` columns, at most `most` rows of each table.

    `seen_until` is when the spot prices of each region were last looked at; `spot_hint` says what to do where none are kept.
    """
    periods, changes, statistics = document["periods"], document["spot_changes"], document["spot_statistics"]
    where = f" in {one_region(periods)}" if one_region(periods) else ""
    parts: list[RenderableType] = [
        Text.assemble(
            (printable(document["instance_type"]), STRONG),
            f" ({document['provider']}){where}, per hour of one instance; snapshot {str(document['snapshot_id'])[:12]}, "
            f"last seen {day_of(document['as_of'])}, {age_since(moment(document['as_of']), now)}",
        )
    ]
    if periods:
        parts += [Text(""), *table(period_columns(periods[:most]), width)]
        parts += cut_line(len(periods), most, "period", "--region, --purchase or --since")
        parts += period_charts(periods, width)
    if statistics:
        window = statistics[0]
        parts += [
            Text(""),
            Text(
                f"Spot, {day_of(window['window_start'])} to {day_of(window['window_end'])}, {known_share(statistics)}; "
                "every figure weighted by the time that a price held",
                style=STRONG,
            ),
            *table(statistics_columns(statistics[:most]), width),
        ]
        parts += cut_line(len(statistics), most, "zone", "--region or --zone")
        if any((s["at_on_demand_cap_fraction"] or 0) > 0 for s in statistics):
            parts.append(
                Text("At the on-demand price nothing is to be had: it is a cap, no market price.", style=QUIET)
            )
    if changes:
        parts += spot_charts(changes, seen_until, width)
    if spot_hint:
        parts += [Text(""), Text(spot_hint, style=QUIET)]
    if not (periods or statistics or changes) and not spot_hint:
        parts.append(Text("No price of it was seen under these filters."))
    return rendered(parts, width=width, colour=colour)


def age_since(at: datetime, now: datetime) -> str:
    """Return the age of a figure in words; of one that is dated after the clock that the clock is to be checked."""
    return "in the future: check the clock" if after_clock(at, now) else age(age_hours(at, now))


def cut_line(found: int, most: int, noun: str, narrow: str) -> list[RenderableType]:
    """Return the line about rows that are not shown; none where all are."""
    if found <= most:
        return []
    return [Text(f"{most:,} of {count(found, noun)}; narrow it with {narrow}, or --limit N", style=QUIET)]


def key_of(period: Document) -> tuple[Any, ...]:
    """Return what tells the history of one price from another's."""
    return tuple(period[name] for name in KEY_FIELDS)


def period_columns(periods: Sequence[Document]) -> list[Column]:
    """Return the columns of the list prices."""
    before: dict[int, Document] = {
        n: periods[n - 1] for n in range(1, len(periods)) if key_of(periods[n - 1]) == key_of(periods[n])
    }
    return [
        Column("Region", cells=[Cell("" if one_region(periods) else p["region"]) for p in periods]),
        Column("Bought as", cells=[bought_cell(p) for p in periods]),
        money_column("$/h", periods, "unit_price", style=STRONG),
        Column("Change", right=True, cells=[change_cell(p["change_fraction"]) for p in periods]),
        Column(
            "Seen",
            "changed between",
            keep=1,
            cells=[
                seen_cell(p, before.get(n), last=n + 1 == len(periods) or key_of(periods[n + 1]) != key_of(p))
                for n, p in enumerate(periods)
            ],
        ),
        Column("Unit", keep=3, cells=[Cell("" if p["unit"] == "Hrs" else p["unit"]) for p in periods]),
        Column("Source", keep=5, cells=[Cell(short(p["source"], 30), style=QUIET) for p in periods]),
    ]


def seen_cell(period: Document, before: Document | None, *, last: bool) -> Cell:
    """Return when a price was seen and between which days it came; of the last one whether it is a thing of the past."""
    gone = last and not period["listed"]
    under = "; ".join(text for text in (when(period, before), UNLISTED * gone) if text)
    return Cell(
        span(day_of(period["first_seen"]), day_of(period["last_seen"])), under, under_style=CARE if gone else ""
    )


def one_region(periods: Sequence[Document]) -> str:
    """Return the region that all periods are of, empty where there are several: it stands in the heading then."""
    regions = {p["region"] for p in periods}
    return str(regions.pop()) if len(regions) == 1 else ""


def change_cell(fraction: float | None) -> Cell:
    """Return a relative change in per cent with its sign: "-44.0 %"; nothing for the first price."""
    if fraction is None:
        return Cell("")
    return Cell(percent(fraction), style=GOOD if fraction < 0 else BAD)


def percent(fraction: float) -> str:
    """Return a change in per cent with its sign, "+12.0 %"; three digits, a tenth at most."""
    size = abs(fraction) * 100
    return (
        f"{'-' if fraction < 0 else '+'}{size:,.1f} %"
        if size >= 0.1
        else f"{'-' if fraction < 0 else '+'}{figure(size, 2)} %"
    )


def when(period: Document, before: Document | None) -> str:
    """Return the days between which a price changed, as far as it is known: "2025-04-28 and 2025-06-23"."""
    if period["change_fraction"] is None:
        return ""
    new = day_of(period["first_seen"])
    if before is None:  # cut off by --since
        return f"by {new}"
    old = day_of(before["last_seen"])
    return f"on {new}" if old == new else f"{old} and {new}"


def span(first: str, last: str) -> str:
    """Return the days between which a price was seen."""
    return first if first == last else f"{first} {DASH} {last}"


def period_charts(periods: Sequence[Document], width: int) -> list[RenderableType]:
    """Return a chart of each price that moved, at most three; of the on-demand price where none did."""
    by_key: dict[tuple[Any, ...], list[Document]] = {}
    for p in periods:
        by_key.setdefault(key_of(p), []).append(p)
    moved = [rows for rows in by_key.values() if len(rows) > 1]
    chosen = moved or [rows for rows in by_key.values() if rows[0]["purchase_option"] == "on_demand"]
    parts: list[RenderableType] = []
    for rows in chosen[:MOST_CHARTS]:
        steps = tuple(Step(Decimal(r["unit_price"]), moment(r["first_seen"]), moment(r["last_seen"])) for r in rows)
        lines = chart([Line("", steps)], width=width, unit=f"{rows[0]['currency']}/h")
        if lines:
            lines[0] = f"{rows[0]['region']}, {purchase(rows[0])}, {lines[0]}"
            parts += [Text(""), *map(Text, lines)]
    if len(moved) > MOST_CHARTS:
        parts += [
            Text(
                f"{len(moved) - MOST_CHARTS} more prices moved; one chart each with --region and --purchase",
                style=QUIET,
            )
        ]
    return parts


def statistics_columns(statistics: Sequence[Document]) -> list[Column]:
    """Return the columns of the spot statistics, one row per zone."""

    def money(field: str) -> list[Cell]:
        return [Cell(price_text(s[field], s["currency"])) for s in statistics]

    return [
        Column("Zone", cells=[Cell(s["availability_zone_id"] or s["availability_zone"] or ABSENT) for s in statistics]),
        Column("Region", keep=4, cells=[Cell(s["region"]) for s in statistics]),
        Column(
            "Now",
            right=True,
            cells=[Cell(price_text(s["last_unit_price"], s["currency"]), style=STRONG) for s in statistics],
        ),
        Column("Median", right=True, cells=money("median_unit_price")),
        Column("Mean", right=True, keep=2, cells=money("mean_unit_price")),
        Column("p95", right=True, cells=money("p95_unit_price")),
        Column("Least", right=True, keep=3, cells=money("minimum_unit_price")),
        Column("Most", right=True, keep=3, cells=money("maximum_unit_price")),
        Column(
            "Volatility",
            right=True,
            keep=1,
            cells=[Cell(f"{s['volatility_fraction'] * 100:.1f} %") for s in statistics],
        ),
        Column("At the cap", right=True, cells=[share(s["at_on_demand_cap_fraction"]) for s in statistics]),
        Column("Changes", right=True, keep=4, cells=[Cell(f"{s['changes']:,}") for s in statistics]),
        Column("Known", right=True, keep=5, cells=[Cell(f"{s['observed_fraction'] * 100:.0f} %") for s in statistics]),
    ]


def known_share(statistics: Sequence[Document]) -> str:
    """Return of how much of the window prices are known: "known for 10 % of the time", "for 10 to 43 %" where zones differ."""
    shares = [s["observed_fraction"] * 100 for s in statistics]
    least, most = f"{min(shares):.0f}", f"{max(shares):.0f}"
    return f"known for {least if least == most else f'{least} to {most}'} % of the time"


def share(fraction: float | None) -> Cell:
    """Return a share of time in per cent; red where most of the time nothing was to be had."""
    if fraction is None:
        return Cell(ABSENT)
    return Cell(
        f"{fraction * 100:.0f} %" if fraction == 0 or fraction >= 0.01 else "<1 %", style=BAD if fraction > 0.5 else ""
    )


def spot_charts(changes: Sequence[Document], seen_until: Mapping[str, datetime], width: int) -> list[RenderableType]:
    """Return one chart per region and currency, each zone a line; every price holds until the zone's next change."""
    groups: dict[tuple[str, str], dict[str, list[Document]]] = {}
    for c in changes:
        zones = groups.setdefault((c["region"], c["currency"]), {})
        zones.setdefault(c["availability_zone_id"] or c["availability_zone"] or ABSENT, []).append(c)
    parts: list[RenderableType] = []
    for (region, currency), zones in list(groups.items())[:MOST_CHARTS]:
        last = max(moment(c["since"]) for rows in zones.values() for c in rows)
        end = max(last, seen_until.get(region, last))
        lines = []
        for zone, rows in list(zones.items())[:MOST_ZONES]:
            starts = [moment(c["since"]) for c in rows]
            lines.append(
                Line(
                    zone,
                    tuple(
                        Step(Decimal(c["unit_price"]), begin, stop)
                        for c, begin, stop in zip(rows, starts, [*starts[1:], end], strict=True)
                    ),
                )
            )
        drawn = chart(lines, width=width, unit=f"{currency}/h")
        if drawn:
            drawn[0] = f"{region}, spot, {drawn[0]}" + (f"; {zone}" if len(lines) == 1 else "")
            parts += [Text(""), *map(Text, drawn)]
        if len(zones) > MOST_ZONES:
            parts.append(Text(f"{MOST_ZONES} of {len(zones)} zones; choose others with --zone", style=QUIET))
    total = sum(len(rows) for zones in groups.values() for rows in zones.values())
    parts += [Text(f"{count(total, 'change')}; each with its moment: --format csv or json", style=QUIET)]
    return parts


def moment(text: str) -> datetime:
    """Return the instant of a document."""
    return datetime.fromisoformat(text)
