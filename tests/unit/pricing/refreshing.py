"""Small sources that really are sources: what they answer is given, how they fail is theirs to choose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from small_contents import quote

from pricing.model import PurchaseOption, Quote
from pricing.source import Ask, Scope, Source, SourceReading

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
OPTIONS = frozenset({PurchaseOption.ON_DEMAND})


def ask(
    region: str | None = "us-east-1", at: datetime = NOW, types: frozenset[str] = frozenset({"p5.48xlarge"})
) -> Ask:
    return Ask(region=region, at=at, chips=(), instance_types=types)


def live(name: str, price: str, region: str | None, at: datetime) -> Quote:
    return quote("aws", name, region or "us-east-1", price, source="AWS price list", retrieved_at=at, list_unit_price=Decimal(price))  # fmt: skip


def reading_of(name: str, asked: Ask, prices: dict[str, str], **over: Any) -> SourceReading:
    scope = Scope(provider="aws", region=asked.region, tables=frozenset({"quotes"}), purchase_options=OPTIONS)
    return SourceReading(
        source=name,
        scope=scope,
        retrieved_at=asked.at,
        quotes=tuple(live(type_name, price, asked.region, asked.at) for type_name, price in prices.items()),
        **over,
    )


def source(
    name: str = "price_list",
    prices: dict[str, str] | None = None,
    *,
    regional: bool = True,
    needs_credentials: bool = True,
    default: bool = True,
    asked: list[str | None] | None = None,
    before: Callable[[Ask], None] = lambda _: None,
    **over: Any,
) -> Source:
    """A source that answers with these prices, after `before` (which may fail or wait); the regions asked go to `asked`."""

    def read(question: Ask) -> SourceReading:
        if asked is not None:
            asked.append(question.region)
        before(question)
        question.on_answer()
        return reading_of(name, question, {"p5.48xlarge": "50"} if prices is None else prices, **over)

    return Source(
        name=name, regional=regional, needs_credentials=needs_credentials, default=default, what="prices", read=read
    )
