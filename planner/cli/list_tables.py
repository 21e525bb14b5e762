"""Tables of the listing commands: prices, instances, models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import ABSENT, TIMES, count, count_of, day_of, dollars, dollars_per_hour, figure, whole, words
from planner.cli.output import printable
from planner.cli.paint import BAD, CARE, GOOD, QUIET, STRONG, Cell, Column, indented, rendered, table

Document = Mapping[str, Any]
STALE, CAPPED = "!", "cap"


def prices_text(
    document: Document, *, found: int, width: int, colour: bool, marks: Sequence[tuple[bool, bool]] = ()
) -> str:
    """Return the prices of a document for a terminal of `width` columns; `found` is how many there are in all.

    `marks`: of each price whether it is too old for its kind, and whether it stands at the on-demand cap.
    """
    shown = document["prices"]
    columns = [
        Column("Instance", cells=[Cell(p["instance_type"]) for p in shown]),
        Column("Bought as", cells=[bought_cell(p) for p in shown]),
        Column(
            "Region",
            cells=[Cell(p["region"] if p["provider"] == "aws" else f"{p['region']} ({p['provider']})") for p in shown],
        ),
        Column("Zone", keep=1, cells=[Cell(p["availability_zone_id"] or "") for p in shown]),
        money_column("$/h", shown, "effective_unit_price", style=STRONG),
        Column("Mark", cells=[mark_cell(*each) for each in marks or [(False, False)] * len(shown)]),
        money_column("List $/h", shown, "list_unit_price", where="contracted_unit_price", keep=3),
        money_column("Upfront $", shown, "upfront", where="upfront", form=dollars, keep=4),
        Column("Read on", keep=2, cells=[Cell(day_of(p["retrieved_at"])) for p in shown]),
        Column("Source", keep=5, cells=[Cell(short(p["source"]), style=QUIET) for p in shown]),
    ]
    return listing(
        document,
        columns,
        "price",
        found,
        len(shown),
        width=width,
        colour=colour,
        narrow="--region, --instance, --purchase or --max-price",
        figures="newest of",
        legend=legend_of(marks),
    )


def mark_cell(stale: bool, capped: bool) -> Cell:
    """Return the marks of a price."""
    return Cell(" ".join([STALE] * stale + [CAPPED] * capped), style=CARE)


def legend_of(marks: Sequence[tuple[bool, bool]]) -> list[RenderableType]:
    """Return what the marks mean, those that are there."""
    from planner.services.documents import STALE_AFTER_HOURS

    hours, said = STALE_AFTER_HOURS, []
    if any(old for old, _ in marks):
        said.append(
            f"{STALE}: stale, older than {hours['spot']} h for spot, {hours['on_demand'] // 24} days for on-demand, "
            f"{hours['commitment'] // 24} days for commitments, or dated after this machine's clock."
        )
    if any(capped for _, capped in marks):
        said.append(f"{CAPPED}: at the on-demand price, which is no market price: nothing is to be had.")
    return [Text(line, style=CARE) for line in said]


def money_column(
    title: str,
    rows: Sequence[Document],
    field: str,
    *,
    form: Callable[[Any], str] = dollars_per_hour,
    where: str | None = None,
    style: str = "",
    keep: int = 0,
) -> Column:
    """Return a column of amounts: of dollars under a title that says so, or each with its currency where any is another.

    `where`: only of rows that have something there.
    """
    dollars_alone = all(row["currency"] in {"USD", None} for row in rows)
    cells = [
        Cell(
            ""
            if where is not None and row[where] is None
            else form(row[field])
            if dollars_alone or row[field] is None
            else f"{form(row[field])} {row['currency']}",
            style=style,
        )
        for row in rows
    ]
    named = title if dollars_alone else title.replace(" $", "").replace("$", "Price") or title
    return Column(named, right=True, keep=keep, cells=cells)


def price_text(amount: str | None, currency: str) -> str:
    """Return an hourly price as a column of dollars shows it; another currency is named with it."""
    return dollars_per_hour(amount) if currency == "USD" or amount is None else f"{dollars_per_hour(amount)} {currency}"


def rates_text(document: Document, *, found: int, width: int, colour: bool) -> str:
    """Return the storage and network prices of a document for a terminal of `width` columns; `found` is how many there are in all."""
    shown = document["rates"]
    columns = [
        Column("Service", cells=[Cell(r["service"]) for r in shown]),
        Column("Item", wraps=True, cells=[Cell(r["item"]) for r in shown]),
        Column("Region", cells=[Cell(r["region"]) for r in shown]),
        Column("Tier a month", cells=[Cell(tier_text(r)) for r in shown]),  # it tells rows apart: never left out
        Column(
            "Price",
            right=True,
            cells=[Cell(f"{Decimal(r['unit_price']):f} {r['currency']}", style=STRONG) for r in shown],
        ),
        Column("Per", cells=[Cell(r["unit"]) for r in shown]),
        Column("Of", keep=2, cells=[Cell(day_of(r["retrieved_on"])) for r in shown]),
        Column("Source", keep=5, cells=[Cell(short(r["source"]), style=QUIET) for r in shown]),
    ]
    return listing(
        document,
        columns,
        "rate",
        found,
        len(shown),
        width=width,
        colour=colour,
        narrow="--region or --service",
        figures="newest of",
    )


def tier_text(rate: Document) -> str:
    """Return the part of a month's amount that a rate is for: "100 to 10,240", "from 153,600", empty for every amount."""
    begin, end = rate["tier_from"], rate["tier_to"]
    if begin is None and end is None:
        return ""
    return f"from {begin or 0:,.0f}" if end is None else f"{begin or 0:,.0f} to {end:,.0f}"


def purchase(price: Document) -> str:
    """Return how a price is paid: "spot", "reserved 1yr, all upfront, standard"."""
    terms = [
        words(price["purchase_option"]),
        *(words(price[name]) for name in ("payment_option", "plan_type", "offering_class") if price.get(name)),
    ]
    return ", ".join(terms)


def bought_cell(price: Document) -> Cell:
    """Return how a price is paid, the terms of a commitment under it."""
    option, _, terms = purchase(price).partition(", ")
    return Cell(option, terms)


def instances_text(document: Document, *, most: int, width: int, colour: bool) -> str:
    """Return the instance types, at most `most` of them, for a terminal of `width` columns."""
    shown = document["instance_types"][:most]
    columns = [
        Column(
            "Instance",
            cells=[
                Cell(t["instance_type"] if t["provider"] == "aws" else f"{t['instance_type']} ({t['provider']})")
                for t in shown
            ],
        ),
        Column("Accelerators", cells=[Cell(chips(t)) for t in shown]),
        Column("GiB each", right=True, keep=1, cells=[Cell(figure(t["device_memory_gib"])) for t in shown]),
        Column("bf16", "TFLOP/s each", right=True, keep=3, cells=[Cell(figure(peak(t))) for t in shown]),
        Column(
            "GB/s",
            "each",
            right=True,
            keep=4,
            cells=[Cell(figure((t["chip"] or {}).get("memory_bandwidth_gb_s"))) for t in shown],
        ),
        Column(
            "Link",
            keep=5,
            cells=[Cell("" if t["interconnect_kind"] == "none" else t["interconnect_kind"]) for t in shown],
        ),
        Column("vCPUs", right=True, keep=2, cells=[Cell(whole(t["vcpus"])) for t in shown]),
        Column("RAM GiB", right=True, keep=2, cells=[Cell(whole(t["memory_gib"])) for t in shown]),
        Column("Gbit/s", right=True, keep=6, cells=[Cell(figure(t["network_gbps"])) for t in shown]),
        Column(
            "Priced in",
            right=True,
            keep=1,
            cells=[Cell(count(len(t["regions"]), "region") if t["regions"] else "no price") for t in shown],
        ),
    ]
    return listing(
        document,
        columns,
        "instance type",
        len(document["instance_types"]),
        most,
        width=width,
        colour=colour,
        narrow="--accelerator, --instance or --region",
    )


def peak(instance: Document) -> Any:
    """Return the chip's dense 16-bit peak in TFLOP/s: bf16, else fp16."""
    peaks = (instance["chip"] or {}).get("peak_tflops") or {}
    return peaks.get("bf16", peaks.get("fp16"))


def chips(instance: Document) -> str:
    """Return "8 x H100 SXM5 80GB", or the CPU's name."""
    number = instance["accelerators_per_instance"]
    return instance["accelerator"] or ABSENT if number is None else f"{whole(number)} {TIMES} {instance['accelerator']}"


def listing(
    document: Document,
    columns: Sequence[Column],
    noun: str,
    found: int,
    most: int,
    *,
    width: int,
    colour: bool,
    narrow: str,
    figures: str = "on-demand prices of",
    legend: Sequence[RenderableType] = (),
) -> str:
    """Return a table under a line that says which snapshot it is of, and a line about what is not shown."""
    parts: list[RenderableType] = []
    if found:
        parts += [*table(columns, width), *legend]
    title = f"{count(found, noun)}; snapshot {str(document['snapshot_id'])[:12]}, {figures} {day_of(document['as_of'])}"
    if found > most:
        title = f"{most:,} of {title}; narrow it with {narrow}, or --limit N; --format csv gives all"
    parts += [Text(""), Text(title, style=QUIET)] if found else [Text(title)]
    return rendered(parts, width=width, colour=colour)


def short(source: str, most: int = 44) -> str:
    """Return the beginning of a long source."""
    return source if len(source) <= most else source[: most - 1].rstrip() + "…"


def models_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the models that are known by name, for a terminal of `width` columns."""
    shown = document["models"]
    columns = [
        Column("Model", cells=[Cell(m["name"], style=STRONG) for m in shown]),
        Column("Aliases", narrowest=12, cells=[Cell(", ".join(m.get("aliases") or ())) for m in shown]),
        Column("Parameters", right=True, cells=[Cell(count_of(m.get("parameters_total"))) for m in shown]),
        Column(
            "Active",
            right=True,
            keep=2,
            cells=[
                Cell(
                    count_of(m["parameters_active"])
                    if m.get("parameters_active") not in (None, m.get("parameters_total"))
                    else ""
                )
                for m in shown
            ],
        ),
        Column("Context", right=True, keep=3, cells=[Cell(whole(m.get("max_context"))) for m in shown]),
        Column("Architecture", keep=4, cells=[Cell(m.get("architecture") or "", style=QUIET) for m in shown]),
    ]
    parts = [
        *table(columns, width),
        Text(""),
        Text("Any Hugging Face config works too: --model PATH/config.json; without one: --params 6.7e9.", style=QUIET),
    ]
    return rendered(parts, width=width, colour=colour)


def model_text(document: Document, *, width: int, colour: bool) -> str:
    """Return what is known of one model, for a terminal of `width` columns."""
    gib = 2**30
    parts: list[RenderableType] = [
        Text(printable(document["name"]), style=STRONG),
        indented(f"{document['architecture']}", style=QUIET),
    ]
    total, active = document["parameters_total"], document["parameters_active"]
    lines = [("parameters", f"{total:,} ({count_of(total)})")]
    lines += [("active per token", f"{active:,} ({count_of(active)})")] if active != total else []
    lines += [
        (f"weights in {p}", f"{figure(size / gib, 4)} GiB ({size:,} bytes)")
        for p, size in document["weight_bytes"].items()
        if size is not None
    ]
    own = document["checkpoint"]
    lines += [
        (
            f"as published, {own['precision']}",
            f"{figure(own['weight_bytes'] / gib, 4)} GiB ({own['weight_bytes']:,} bytes)",
        )
    ]
    lines += [
        (f"KV cache per token, {p}", f"{size / 1024:,.6g} KiB ({size:,} bytes)")
        for p, size in document["kv_bytes_per_token"].items()
        if size
    ]
    lines += [("longest context", f"{document['max_context']:,} tokens")] if document.get("max_context") else []
    lines += [("source", printable(str(document["source"])))]
    lines += [("assumed", str(a)) for a in document.get("assumptions") or ()]
    name_width = max(len(name) for name, _ in lines)
    parts += [
        indented(f"{name:<{name_width}}  {value}" if width >= 60 else f"{name}: {value}") for name, value in lines
    ]
    return rendered(parts, width=width, colour=colour)


def checks_text(document: Document, *, width: int, colour: bool) -> str:
    """Return what `doctor` found, for a terminal of `width` columns."""
    styles = {"ok": GOOD, "note": CARE, "fault": BAD}
    checks = document["checks"]
    columns = [
        Column("State", cells=[Cell(c["state"], style=styles[c["state"]]) for c in checks]),
        Column("What", cells=[Cell(c["name"], style=STRONG) for c in checks]),
        Column("Found", wraps=True, cells=[Cell(c["found"]) for c in checks]),
    ]
    parts: list[RenderableType] = [*table(columns, width)]
    faults = sum(c["state"] == "fault" for c in checks)
    parts += [
        Text(""),
        Text("All of it works." if not faults else f"{count(faults, 'fault')}.", style=GOOD if not faults else BAD),
    ]
    return rendered(parts, width=width, colour=colour)
