"""`Catalog`: what a snapshot offers, looked up by name, region and purchase option. Reads the file lazily; holds no clock and no network."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pricing.errors import AmbiguousName, SnapshotError, UnknownName
from pricing.market import (
    CapacityBlock,
    Discount,
    Notice,
    PlacementScore,
    PricePeriod,
    Quota,
    SpotStatistics,
    ZoneOffering,
)
from pricing.model import Accelerator, InstanceType, Interruption, PurchaseOption, Quote, Rate, SnapshotMeta, SourceAge
from pricing.rows import columns, values

if TYPE_CHECKING:
    from pricing.contents import SnapshotContents

Row = TypeVar("Row")
NEAR = 3  # suggestions for a name that is not known
BY_REGION = frozenset({"capacity_blocks", "spot_statistics"})
"""Tables that are read a region at a time, not a type at a time."""

KEPT_ANSWERS = 64  # distinct quote look-ups that one catalog remembers


class Catalog:
    """One open snapshot. Safe to share between threads; what it returns are frozen values in a fixed order.

    Filters: None means all, an empty collection means none.
    """

    def __init__(self, connection: sqlite3.Connection, meta: SnapshotMeta, path: Path) -> None:
        self.meta = meta
        self.path = path
        self._connection = connection
        self._close = weakref.finalize(self, connection.close)  # a catalog that is let go lets go of its file
        self._lock = threading.Lock()
        self._quotes: dict[tuple[tuple[str, ...] | None, ...], tuple[Quote, ...]] = {}
        self._options: dict[tuple[str, ...], Mapping[tuple[str, str, str], frozenset[PurchaseOption]]] = {}
        self._options_anywhere: dict[tuple[str, str], frozenset[PurchaseOption]] = {}
        self._regional: dict[tuple[str, str], Mapping[str, tuple[Any, ...]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; what was read stays valid."""
        self._close()

    @cached_property
    def accelerators(self) -> Mapping[str, Accelerator]:
        """Every chip by its canonical name."""
        return MappingProxyType({a.name: a for a in self._read(Accelerator, "accelerators")})

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """Every other spelling of a chip, and the canonical name it stands for."""
        return MappingProxyType(dict(self._rows("SELECT alias, name FROM aliases ORDER BY alias", ())))

    def accelerator(self, name: str) -> Accelerator:
        """Return the chip of that canonical name or alias, case and outer blanks aside; UnknownName with near misses otherwise."""
        exact = self.accelerators.get(name)
        if exact is not None:
            return exact
        known = self._accelerator_names
        canonical = known.get(name.strip().casefold())
        if canonical is None:
            near = near_misses(name, known, most=12)
            raise UnknownName("accelerator", name, tuple(dict.fromkeys(known[spelling] for spelling in near))[:NEAR])
        return self.accelerators[canonical]

    @cached_property
    def _accelerator_names(self) -> Mapping[str, str]:
        names = {alias.casefold(): canonical for alias, canonical in self.aliases.items()}
        return names | {name.casefold(): name for name in self.accelerators}

    @cached_property
    def _all_instance_types(self) -> tuple[InstanceType, ...]:
        return self._read(InstanceType, "instance_types")

    @cached_property
    def _types_by_name(self) -> Mapping[str, tuple[InstanceType, ...]]:
        by_name: dict[str, tuple[InstanceType, ...]] = {}
        for each in self._all_instance_types:
            key = each.instance_type.casefold()
            by_name[key] = (*by_name.get(key, ()), each)
        return by_name

    def instance_types(self, provider: str | None = None) -> tuple[InstanceType, ...]:
        """Return the instance types of one provider, or of all, ordered by provider and name."""
        if provider is None:
            return self._all_instance_types
        return tuple(t for t in self._all_instance_types if t.provider == provider)

    def instance_types_named(self, name: str, providers: Collection[str] | None = None) -> tuple[InstanceType, ...]:
        """Return the types of that name (case aside), one per provider; UnknownName with near misses when there is none."""
        found = tuple(
            t
            for t in self._types_by_name.get(name.strip().casefold(), ())
            if providers is None or t.provider in providers
        )
        if not found:
            known = (t.instance_type for t in self._all_instance_types if providers is None or t.provider in providers)
            raise UnknownName("instance type", name, near_misses(name, known))
        return found

    def instance_type(self, name: str, provider: str | None = None) -> InstanceType:
        """Return the type of that name; UnknownName with near misses, AmbiguousName when several providers have one of that name."""
        found = self.instance_types_named(name, None if provider is None else (provider,))
        if len(found) > 1:
            exact = [t for t in found if t.instance_type == name.strip()]
            if len(exact) != 1:
                raise AmbiguousName("instance type", name, tuple(sorted({t.provider for t in found})))
            return exact[0]
        return found[0]

    @cached_property
    def options_quoted(self) -> Mapping[tuple[str, str, str], frozenset[PurchaseOption]]:
        """Provider, type and region of every quote, and the purchase options that have one there; no quote is read for it."""
        return self._options_quoted("", ())

    def options_quoted_in(
        self, regions: Collection[str] | None
    ) -> Mapping[tuple[str, str, str], frozenset[PurchaseOption]]:
        """Return `options_quoted` of some regions, None for all: a refreshed snapshot has many more than are asked for."""
        if regions is None or set(regions).issuperset(self.regions()):
            return self.options_quoted
        names = tuple(sorted(set(regions)))
        found = self._options.get(names)
        if found is None:
            found = self._options_quoted(f" WHERE region IN ({', '.join('?' * len(names))})", names)
            if len(self._options) >= KEPT_ANSWERS:
                self._options.clear()
            self._options[names] = found
        return found

    def options_of(self, instance: InstanceType) -> frozenset[PurchaseOption]:
        """Return the purchase options for which a type has a quote in any region."""
        key = (instance.provider, instance.instance_type)
        if "options_quoted" in vars(self):  # they are read already
            return self._options_by_type.get(key, frozenset())
        found = self._options_anywhere.get(key)
        if found is None:
            query = "SELECT DISTINCT purchase_option FROM quotes WHERE provider = ? AND instance_type = ?"
            found = self._options_anywhere[key] = frozenset(PurchaseOption(row[0]) for row in self._rows(query, key))
        return found

    @cached_property
    def _options_by_type(self) -> Mapping[tuple[str, str], frozenset[PurchaseOption]]:
        found: dict[tuple[str, str], frozenset[PurchaseOption]] = {}
        for (provider, name, _), options in self.options_quoted.items():
            found[provider, name] = found.get((provider, name), frozenset()) | options
        return found

    def _options_quoted(
        self, where: str, regions: Iterable[str]
    ) -> Mapping[tuple[str, str, str], frozenset[PurchaseOption]]:
        # `where` is one of our own texts; the regions are arguments
        query = (
            "SELECT provider, instance_type, region, group_concat(DISTINCT purchase_option) FROM quotes"  # noqa: S608
            f"{where} GROUP BY instance_type, region, provider ORDER BY 1, 2, 3"
        )
        rows = self._rows(query, regions)
        options = {text: frozenset(map(PurchaseOption, text.split(","))) for text in {row[3] for row in rows}}
        return {(provider, name, region): options[text] for provider, name, region, text in rows}

    @cached_property
    def _offers(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        offers: dict[tuple[str, str], list[str]] = {}
        for provider, name, region in self.options_quoted:
            offers.setdefault((provider, name), []).append(region)
        return {key: tuple(regions) for key, regions in offers.items()}

    def regions_of(self, instance: InstanceType) -> tuple[str, ...]:
        """Return the regions in which the type has any price, sorted; empty when no price is known."""
        return self._offers.get((instance.provider, instance.instance_type), ())

    def providers(self) -> tuple[str, ...]:
        """Return the providers that have instance types or quotes, sorted."""
        return tuple(
            row[0]
            for row in self._rows(
                "SELECT provider FROM quotes UNION SELECT provider FROM instance_types ORDER BY 1", ()
            )
        )

    @cached_property
    def _regions(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._rows("SELECT DISTINCT region FROM quotes ORDER BY region", ()))

    def regions(self) -> tuple[str, ...]:
        """Return every region that has a quote, sorted."""
        return self._regions

    def region(self, name: str) -> str:
        """Return the region as the quotes spell it; UnknownName with near misses otherwise."""
        spelled = {r.casefold(): r for r in self.regions()}.get(name.strip().casefold())
        if spelled is None:
            raise UnknownName("region", name, near_misses(name, self.regions()))
        return spelled

    def provider(self, name: str) -> str:
        """Return the provider as the tables spell it; UnknownName with near misses otherwise."""
        spelled = {p.casefold(): p for p in self.providers()}.get(name.strip().casefold())
        if spelled is None:
            raise UnknownName("provider", name, near_misses(name, self.providers()))
        return spelled

    def quotes(
        self,
        *,
        regions: Collection[str] | None = None,
        providers: Collection[str] | None = None,
        purchase_options: Collection[str] | None = None,
        instance_types: Collection[str] | None = None,
    ) -> list[Quote]:
        """Return the quotes that pass every filter, ordered by provider, region, type, purchase option, zone and terms."""
        wanted = tuple(
            None if names is None else tuple(sorted({str(n) for n in names}))
            for names in (regions, providers, purchase_options, instance_types)
        )
        found = self._quotes.get(wanted)
        if found is None:
            parts = [
                (column, names)
                for column, names in zip(
                    ("region", "provider", "purchase_option", "instance_type"), wanted, strict=True
                )
                if names is not None
            ]
            where = " AND ".join(f"{column} IN ({', '.join('?' * len(names))})" for column, names in parts)
            found = self._read(Quote, "quotes", where, [name for _, names in parts for name in names])
            if len(self._quotes) >= KEPT_ANSWERS:
                self._quotes.clear()
            self._quotes[wanted] = found
        return list(found)

    def rates(self, service: str | None = None, region: str | None = None) -> tuple[Rate, ...]:
        """Return prices of storage, network and other services, all or of one service and region."""
        given = [(column, value) for column, value in (("service", service), ("region", region)) if value is not None]
        return self._read(
            Rate, "rates", " AND ".join(f"{column} = ?" for column, _ in given), [value for _, value in given]
        )

    def interruption(self, instance_type: str, region: str) -> Interruption | None:
        """Return the spot interruption band of a type in a region, or None when no source gives one."""
        found = self._in_region(Interruption, "interruptions", region).get(instance_type, ())
        return found[0] if found else None

    def price_periods(self, instance_type: str, region: str | None = None) -> tuple[PricePeriod, ...]:
        """Return which list prices of a type were seen when, in one region or all."""
        return self._of_type(PricePeriod, "price_periods", instance_type, region)

    def zone_offerings(self, instance_type: str, region: str | None = None) -> tuple[ZoneOffering, ...]:
        """Return the zones in which a type is offered, in one region or all; empty when no source was asked."""
        return self._of_type(ZoneOffering, "zone_offerings", instance_type, region)

    def capacity_blocks(self, instance_type: str, region: str | None = None) -> tuple[CapacityBlock, ...]:
        """Return the capacity blocks of a type that could be reserved when the snapshot was made."""
        return self._of_type(CapacityBlock, "capacity_blocks", instance_type, region)

    def capacity_blocks_in(self, region: str) -> tuple[CapacityBlock, ...]:
        """Return the capacity blocks of every type in a region."""
        by_type = self._in_region(CapacityBlock, "capacity_blocks", region)
        return tuple(block for blocks in by_type.values() for block in blocks)

    def spot_statistics(self, instance_type: str, region: str | None = None) -> tuple[SpotStatistics, ...]:
        """Return how the spot price of each zone's pool of a type moved, over the window of the snapshot."""
        return self._of_type(SpotStatistics, "spot_statistics", instance_type, region)

    def placement_scores(self, region: str | None = None) -> tuple[PlacementScore, ...]:
        """Return spot placement scores, in one region or all."""
        where, arguments = ("region = ?", [region]) if region is not None else ("", [])
        return self._read(PlacementScore, "placement_scores", where, arguments)

    def quotas(self, region: str | None = None) -> tuple[Quota, ...]:
        """Return the account's vCPU quotas, in one region or all; empty when they were never asked for."""
        where, arguments = ("region = ?", [region]) if region is not None else ("", [])
        return self._read(Quota, "quotas", where, arguments)

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What the making of the snapshot had to say."""
        return self._read(Notice, "notices")

    @cached_property
    def discounts(self) -> tuple[Discount, ...]:
        """The private agreement whose prices stand as contracted beside the list prices."""
        return self._read(Discount, "discounts")

    def _of_type(self, kind: type[Row], table: str, instance_type: str, region: str | None) -> tuple[Row, ...]:
        if region is not None and table in BY_REGION:
            return self._in_region(kind, table, region).get(instance_type, ())
        where, arguments = "instance_type = ?", [instance_type]
        if region is not None:
            where, arguments = f"{where} AND region = ?", [instance_type, region]
        return self._read(kind, table, where, arguments)

    def _in_region(self, kind: type[Row], table: str, region: str) -> Mapping[str, tuple[Row, ...]]:
        """Return the rows of a region by instance type. They are few and are asked for type after type: read at once, and remembered."""
        found = self._regional.get((table, region))
        if found is None:
            by_type: dict[str, list[Any]] = {}
            for row in self._read(kind, table, "region = ?", [region]):
                by_type.setdefault(row.instance_type, []).append(row)  # type: ignore[attr-defined]  # rows of these tables have one
            found = self._regional[table, region] = {name: tuple(rows) for name, rows in by_type.items()}
        return found

    def contents(self) -> SnapshotContents:
        """Return everything in the snapshot, in its fixed order."""
        from pricing.contents import SnapshotContents  # noqa: PLC0415 - readers of some rows need no whole contents

        return SnapshotContents(
            accelerators=tuple(self.accelerators.values()),
            aliases=dict(self.aliases),
            instance_types=self._all_instance_types,
            quotes=tuple(self.quotes()),
            rates=self.rates(),
            interruptions=self._read(Interruption, "interruptions"),
            sources=self._read(SourceAge, "sources"),
            price_periods=self._read(PricePeriod, "price_periods"),
            zone_offerings=self._read(ZoneOffering, "zone_offerings"),
            capacity_blocks=self._read(CapacityBlock, "capacity_blocks"),
            spot_statistics=self._read(SpotStatistics, "spot_statistics"),
            placement_scores=self._read(PlacementScore, "placement_scores"),
            quotas=self.quotas(),
            notices=self.notices,
            discounts=self.discounts,
        )

    def _read(self, kind: type[Row], table: str, where: str = "", arguments: Iterable[str] = ()) -> tuple[Row, ...]:
        names = ", ".join(c.name for c in columns(kind))
        # only names of our own columns and tables are put into the text; what a caller gives is an argument
        query = f"SELECT {names} FROM {table}{f' WHERE {where}' if where else ''} ORDER BY rowid"  # noqa: S608
        try:
            return tuple(values(kind, self._rows(query, arguments)))
        except (ValueError, KeyError, TypeError, ArithmeticError) as e:
            raise self._damaged(f"a row of {table} cannot be read: {e}") from e

    def _rows(self, query: str, arguments: Iterable[str]) -> list[Any]:
        try:
            with self._lock:
                return self._connection.execute(query, tuple(arguments)).fetchall()
        except sqlite3.Error as e:
            if getattr(e, "sqlite_errorcode", None) in {
                sqlite3.SQLITE_CORRUPT,
                sqlite3.SQLITE_NOTADB,
                sqlite3.SQLITE_ERROR,
            }:
                raise self._damaged(str(e)) from e
            raise SnapshotError(f"{self.path}: cannot read the snapshot: {e}") from e

    def _damaged(self, why: str) -> SnapshotError:
        from pricing.snapshot import remedy  # noqa: PLC0415 - that module opens catalogs; needed on the way to an error

        return SnapshotError(f"{self.path}: damaged snapshot: {why}; {remedy(self.path)}")


def near_misses(name: str, known: Iterable[str], *, most: int = NEAR) -> tuple[str, ...]:
    """Return at most so many known names that resemble `name`, nearest first, case aside."""
    import difflib  # noqa: PLC0415 - only on the way to an error

    spelled = {k.casefold(): k for k in sorted(known, reverse=True)}
    folded = name.strip().casefold()
    near = difflib.get_close_matches(folded, spelled, n=2 * most, cutoff=0.6)
    near.sort(
        key=lambda k: sorted(k) != sorted(folded)
    )  # swapped letters are the likeliest slip: us-esat-1 is us-east-1, not us-west-1
    if folded:  # "l40" for "NVIDIA L40S …": a name that begins with or holds what was typed is near as well
        near += [
            k
            for k in sorted(spelled, key=lambda k: (not k.startswith(folded), len(k), k))
            if folded in k and k not in near
        ]
    return tuple(spelled[k] for k in near[:most])
