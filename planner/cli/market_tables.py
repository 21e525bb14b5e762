"""The text of `prices snapshots`, `prices diff` and `prices availability`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import ABSENT, age, count, day_of, dollars, figure
from planner.cli.history_table import age_since, change_cell, cut_line, known_share, moment, statistics_columns
from planner.cli.list_tables import bought_cell, money_column
from planner.cli.output import printable
from planner.cli.paint import BAD, CARE, GOOD, QUIET, STRONG, Cell, Column, indented, rendered, table
from planner.recommend.offers import LOCAL_ZONE

Document = Mapping[str, Any]
REFRESH_OF = {
    "zones": ("offerings", "ec2:DescribeInstanceTypeOfferings"),
    "spot": ("spot", "ec2:DescribeSpotPriceHistory"),
    "interruption": ("spot_advisor", ""),
    "placement_scores": ("placement_scores", "ec2:GetSpotPlacementScores"),
    "capacity_blocks": ("capacity_blocks", "ec2:DescribeCapacityBlockOfferings"),
    "quotas": ("quotas", "servicequotas:GetServiceQuota"),
}
"""What a refresh has to ask for a part that is not known, and the permission that it takes."""

BLOCK_ROWS = 12


def snapshots_text(
    document: Document, *, found: int, folder: str, width: int, colour: bool, now: datetime | None = None
) -> str:
    """Return the snapshots for a terminal of `width` columns."""
    shown = document["snapshots"]
    columns = [
        Column("Snapshot", cells=[Cell(s["snapshot_id"], style=STRONG if n == 0 else "") for n, s in enumerate(shown)]),
        Column("Day", cells=[Cell(s["day"]) for s in shown]),
        Column("Origin", cells=[Cell(s["origin"]) for s in shown]),
        Column(
            "On-demand prices",
            keep=1,
            cells=[
                Cell(
                    f"{day_of(s['as_of'])}, {age(s['age_hours']) if now is None else age_since(moment(s['as_of']), now)}"
                )
                for s in shown
            ],
        ),
        Column("Quotes", right=True, cells=[Cell(f"{s['quotes']:,}") for s in shown]),
        Column("Types", right=True, keep=3, cells=[Cell(f"{s['instance_types']:,}") for s in shown]),
        Column("Size", right=True, keep=2, cells=[Cell(f"{figure(s['bytes'] / 1e6)} MB") for s in shown]),
    ]
    parts: list[RenderableType] = [*table(columns, width), Text("")] if shown else []
    title = f"{len(shown):,} of {count(found, 'snapshot')}" if found > len(shown) else count(found, "snapshot")
    parts.append(Text(printable(f"{title}; answers use the first unless told. Kept in {folder}"), style=QUIET))
    parts += [Text(printable(f"Cannot be read: {u['why']}"), style=BAD) for u in document["unreadable"]]
    return rendered(parts, width=width, colour=colour)


def diff_text(document: Document, *, most: int, smaller: int, least_percent: float, width: int, colour: bool) -> str:
    """Return what changed between two snapshots for a terminal of `width` columns, at most `most` rows of each sort.

    `smaller` changes, of less than `least_percent`, are counted and not shown.
    """
    old, new = document["from"], document["to"]
    changed, added, removed = document["changed"], document["added"], document["removed"]
    parts: list[RenderableType] = [
        Text(
            f"{str(old['snapshot_id'])[:12]} of {old['day']}  →  {str(new['snapshot_id'])[:12]} of {new['day']}; "
            "what is paid per hour, upfront spread over the term"
        )
    ]
    if changed:
        columns = [
            *place_columns(changed[:most]),
            money_column("Was $/h", changed[:most], "old_unit_price"),
            money_column("Is $/h", changed[:most], "new_unit_price", style=STRONG),
            Column("Change", right=True, cells=[change_cell(c["change_fraction"]) for c in changed[:most]]),
        ]
        parts += [Text(""), Text("Changed", style=STRONG), *table(columns, width)]
        parts += cut_line(len(changed), most, "change", "--min-change, --region or --purchase")
    for title, rows in (("Added", added), ("Removed", removed)):
        if rows:
            priced = money_column("$/h", rows[:most], "unit_price")
            parts += [Text(""), Text(title, style=STRONG), *table([*place_columns(rows[:most]), priced], width)]
            parts += cut_line(len(rows), most, "price", "--region, --instance or --purchase")
    how = f" by {least_percent:g} % or more, {smaller:,} by less" if least_percent else ""
    summary = f"{len(changed):,} changed{how}, {len(added):,} added, {len(removed):,} removed, {document['unchanged']:,} unchanged"
    parts += [Text(""), Text(summary, style=STRONG)]
    return rendered(parts, width=width, colour=colour)


def place_columns(rows: Sequence[Document]) -> list[Column]:
    """Return the columns that say which price it is."""
    return [
        Column("Instance", cells=[Cell(r["instance_type"]) for r in rows]),
        Column("Bought as", cells=[bought_cell(r) for r in rows]),
        Column(
            "Region",
            cells=[Cell(r["region"] if r["provider"] == "aws" else f"{r['region']} ({r['provider']})") for r in rows],
        ),
        Column("Zone", keep=1, cells=[Cell(r["availability_zone_id"] or r["availability_zone"] or "") for r in rows]),
    ]


def availability_text(document: Document, *, now: datetime, width: int, colour: bool) -> str:
    """Return what is known of getting a type in a region, for a terminal of `width` columns."""
    parts: list[RenderableType] = [
        Text.assemble(
            (printable(document["instance_type"]), STRONG),
            f" in {document['region']}; snapshot {str(document['snapshot_id'])[:12]}, newest figure "
            f"{day_of(document['as_of'])}, {aged(document['as_of'], now)}",
        )
    ]
    parts += section("Zones", zones_part(document["zones"], now, width), "zones")
    if document["spot_statistics"]:
        first = document["spot_statistics"][0]
        known = known_share(document["spot_statistics"])
        title = f"Spot, {day_of(first['window_start'])} to {day_of(first['window_end'])}, {known}; weighted by time"
        parts += section(title, table(statistics_columns(document["spot_statistics"]), width), "spot")
    parts += section("Interruptions", interruption_part(document["interruption"], now), "interruption")
    parts += section("Spot placement", scores_part(document["placement_scores"], now, width), "placement_scores")
    parts += section("Capacity Blocks", blocks_part(document["capacity_blocks"], now, width), "capacity_blocks")
    parts += section("Quotas of the account", quotas_part(document["quotas"], now), "quotas")
    if not document["quotas"] and (codes := document["quota_codes"]):
        counted = ", ".join(
            f"{c['code']} {'as spot' if c['purchase_option'] == 'spot' else 'on demand'}" for c in codes
        )
        parts.append(indented(f"what counts it: {counted}; the default of a new account is often 0", style=QUIET))
    return rendered(parts, width=width, colour=colour)


def section(title: str, body: Sequence[RenderableType], what: str) -> list[RenderableType]:
    """Return a part under its title; one that is not known says what to ask for."""
    if body:
        return [Text(""), Text(title, style=STRONG), *body]
    source, permission = REFRESH_OF[what]
    needs = f" (needs {permission})" if permission else ""
    return [
        Text(""),
        Text(title, style=STRONG),
        indented(f"not known; `planner prices refresh --source {source}` asks{needs}", style=QUIET),
    ]


def aged(text: str | None, now: datetime) -> str:
    """Return the age of a figure in words: of one that has a day and no hour, in days."""
    if text is None:
        return ABSENT
    if "T" in text:
        return age_since(moment(text), now)
    days = (now.astimezone(UTC).date() - date.fromisoformat(text)).days
    if days < -1:  # a day ahead can be the time zone's doing
        return "in the future: check the clock"
    return "today" if days <= 0 else "yesterday" if days == 1 else age(24 * days)


def zones_part(zones: Sequence[Document], now: datetime, width: int) -> list[RenderableType]:
    """Return the zones with what spot costs there now."""
    if not zones:
        return []
    columns = [
        Column("Zone", cells=[Cell(z["availability_zone_id"] or ABSENT) for z in zones]),
        Column("Name here", keep=2, cells=[Cell(z["availability_zone"] or "") for z in zones]),
        Column("Offered", cells=[offered_cell(z["offered"]) for z in zones]),
        money_column("Spot $/h", zones, "spot_unit_price"),
        Column("Of spot", cells=[cap_cell(z) for z in zones]),
        Column("Since (UTC)", keep=3, cells=[Cell((z["spot_since"] or "")[:16].replace("T", " ")) for z in zones]),
        Column("Read", keep=1, cells=[Cell(aged(z["spot_retrieved_at"] or z["retrieved_at"], now)) for z in zones]),
        Column("Source", keep=5, cells=[Cell(z["source"], style=QUIET) for z in zones]),
    ]
    notes = ["Offered means that it can be asked for, not that there is capacity."]
    if any(z["spot_at_on_demand_cap"] for z in zones):
        notes.append("Spot at the on-demand price is a cap, no market price: nothing is to be had there.")
    local = [z["availability_zone_id"] for z in zones if LOCAL_ZONE.fullmatch(z["availability_zone_id"] or "")]
    if local:
        notes.append(f"Local Zones, to each of which an account has to opt in: {', '.join(local)}.")
    return [*table(columns, width), *(Text(note, style=QUIET) for note in notes)]


def offered_cell(offered: bool | None) -> Cell:
    """Return whether a zone offers the type."""
    if offered is None:
        return Cell("not asked", style=QUIET)
    return Cell("yes", style=GOOD) if offered else Cell("no", style=BAD)


def cap_cell(zone: Document) -> Cell:
    """Return what the spot price of a zone says."""
    if zone["spot_unit_price"] is None:
        return Cell("no price")
    if zone["spot_at_on_demand_cap"] is None:
        return Cell("")
    return (
        Cell("nothing to be had", style=BAD) if zone["spot_at_on_demand_cap"] else Cell("below on-demand", style=GOOD)
    )


def interruption_part(interruption: Document | None, now: datetime) -> list[RenderableType]:
    """Return the interruption band in words."""
    if interruption is None:
        return []
    saving = interruption["savings_over_on_demand_fraction"]
    saved = "" if saving is None else f"; spot was {saving * 100:.0f} % below on-demand"
    return [
        indented(
            f"{interruption['band']} of spot instances were interrupted in a month{saved} "
            f"({interruption['retrieved_on']}, {aged(interruption['retrieved_on'], now)}; {interruption['source']})"
        )
    ]


def scores_part(scores: Sequence[Document], now: datetime, width: int) -> list[RenderableType]:
    """Return the placement scores; what they are of, and what they are not."""
    if not scores:
        return []
    columns = [
        Column("Zone", cells=[Cell(s["availability_zone_id"] or "whole region") for s in scores]),
        Column("Score of 10", right=True, cells=[Cell(str(s["score"]), style=STRONG) for s in scores]),
        Column("For", cells=[Cell(capacity(s["target_capacity"], s["target_unit"])) for s in scores]),
        Column("Asked together", wraps=True, cells=[Cell(s["instance_types"]) for s in scores]),
        Column("Read", keep=1, cells=[Cell(aged(s["retrieved_at"], now)) for s in scores]),
    ]
    return [
        *table(columns, width),
        Text("A score is of all its types together; no promise, and no interruption rate.", style=QUIET),
    ]


def capacity(number: int, unit: str) -> str:
    """Return how much was asked for: "1 instance", "192 vCPU"."""
    return count(number, "instance") if unit == "units" else f"{number:,} {unit.replace('vcpu', 'vCPU')}"


def begins(starts_at: str, now: datetime) -> str:
    """Return when a block begins, and that it has: then it can be had no more."""
    return starts_at[:16].replace("T", " ") + (" (begun)" if moment(starts_at) <= now else "")


def blocks_part(blocks: Sequence[Document], now: datetime, width: int) -> list[RenderableType]:
    """Return the capacity blocks that could be reserved when the snapshot was made, the first to begin first."""
    if not blocks:
        return []
    shown = blocks[:BLOCK_ROWS]
    columns = [
        Column("Begins (UTC)", cells=[Cell(begins(b["starts_at"], now)) for b in shown]),
        Column("Lasts", right=True, cells=[Cell(f"{figure(b['minutes'] / 60, 4)} h") for b in shown]),
        Column("Instances", right=True, cells=[Cell(f"{b['instance_count']:,}") for b in shown]),
        Column("Zone", keep=2, cells=[Cell(b["availability_zone_id"] or b["availability_zone"] or "") for b in shown]),
        Column("Upfront", right=True, cells=[Cell(f"{dollars(b['upfront'])} {b['currency']}") for b in shown]),
        money_column("$/h each", shown, "unit_price", style=STRONG),
        Column("Read", keep=1, cells=[Cell(aged(b["retrieved_at"], now)) for b in shown]),
    ]
    more = [Text(f"{BLOCK_ROWS} of {count(len(blocks), 'block')}; --format json has all", style=QUIET)]
    return [
        *table(columns, width),
        *(more if len(blocks) > BLOCK_ROWS else []),
        Text("The whole block is paid at once; it was on offer when it was read, nothing is held.", style=QUIET),
    ]


def quotas_part(quotas: Sequence[Document], now: datetime) -> list[RenderableType]:
    """Return the verdict of each quota that counts the type."""
    lines: list[RenderableType] = []
    for q in quotas:
        bought = "spot" if q["purchase_option"] == "spot" else "on-demand"
        possible = q["instances_possible"]
        number = "" if possible is None else f"{count(possible, 'instance')} at once; "
        default = "" if q["applied"] else ", the default of every account"
        style = CARE if possible is None else GOOD if possible else BAD
        lines.append(
            indented(
                Text.assemble(
                    (f"{bought}: ", STRONG),
                    (f"{number}{q['verdict']}", style),
                    (f" ({q['code']} {q['name']}{default}; {aged(q['retrieved_at'], now)})", QUIET),
                )
            )
        )
    if lines:
        lines.append(Text("Capacity Blocks have quotas of their own.", style=QUIET))
    return lines
