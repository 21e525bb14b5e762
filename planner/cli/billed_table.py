"""The text of `prices billed`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import ABSENT, count, day_of, figure, words
from planner.cli.output import printable
from planner.cli.paint import CARE, QUIET, STRONG, Cell, Column, rendered, table

Document = Mapping[str, Any]


def billed_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the lines of a bill and its totals for a terminal of `width` columns."""
    shown, found, column = document["lines"], document["found"], document["cost_column"]
    columns = [
        Column("Day", cells=[Cell(day_of(x["charge_period_start"])) for x in shown]),
        Column("What", cells=[Cell(printable(what(x))) for x in shown]),
        Column("Paid as", cells=[Cell(paid_as(x)) for x in shown]),
        Column("Region", keep=2, cells=[Cell(printable(x["region"] or "")) for x in shown]),
        Column("Quantity", right=True, keep=1, cells=[Cell(quantity(x)) for x in shown]),
        Column(column.capitalize(), right=True, cells=[Cell(cost(x, column), style=STRONG) for x in shown]),
        Column("Account", keep=3, cells=[Cell(printable(x["account"] or "")) for x in shown]),
    ]
    parts: list[RenderableType] = [*table(columns, width), Text("")] if shown else []
    title = f"{count(found, 'line')} of {document['source']} ({document['format']})"
    if found > len(shown):
        title = f"{len(shown):,} of {title}; --limit N shows more, --format csv all"
    parts.append(Text(printable(title), style=QUIET))
    for reason, rows in document["excluded"].items():
        parts.append(Text(printable(f"{count(rows, 'row')} left out: {reason}"), style=QUIET))
    for total in document["totals"]:
        parts.append(Text(f"{total_text(total)} {column}", style=STRONG))
        if total["lines_without"]:
            parts.append(Text(f"  {count(total['lines_without'], 'line')} without that figure, not in the sum", style=CARE))  # fmt: skip
        if total["lines_estimated"]:
            parts.append(Text(f"  {count(total['lines_estimated'], 'line')} not invoiced yet: may change", style=CARE))
    return rendered(parts, width=width, colour=colour)


def what(line: Document) -> str:
    """Return what a line is for: the instance type, else the usage type, else its words."""
    named = line["instance_type"] or line["usage_type"] or line["description"] or line["service"]
    return named or ABSENT


def paid_as(line: Document) -> str:
    """Return how a line was paid: "spot", "savings plan, unused", "tax"."""
    category = line["charge_category"]
    parts = [words(line["purchase_option"])] if line["purchase_option"] else []
    parts += [category.lower()] if category and (category != "Usage" or not parts) else []
    parts += ["unused"] if line["commitment_status"] == "Unused" else []
    return ", ".join(parts)


def quantity(line: Document) -> str:
    """Return what was used, else what was priced, with its unit."""
    for kind in ("consumed", "pricing"):
        if line[f"{kind}_quantity"] is not None:
            return printable(f"{figure(line[f'{kind}_quantity'])} {line[f'{kind}_unit'] or ''}".rstrip())
    return ""


def cost(line: Document, column: str) -> str:
    """Return the cost that the answer is about; another currency than USD is named with it."""
    text = line[f"{column}_cost"]
    return ABSENT if text is None else f"{amount(text)} {line['billing_currency']}".removesuffix(" USD")


def amount(text: str) -> str:
    """Return an amount: cents from 1 up, three significant digits below; credits are negative."""
    exact = Decimal(text)
    return f"{exact:,.2f}" if abs(exact) >= 1 else figure(exact)


def total_text(total: Document) -> str:
    """Return a sum as a person reads it: "766.58 USD", "no known USD"."""
    text = total["amount"]
    return f"no known {total['currency']}" if text is None else f"{amount(text)} {total['currency']}"
