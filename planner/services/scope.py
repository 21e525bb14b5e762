"""Names of a request, resolved against the catalog: regions, clouds, chips, types. An unknown one is a `BadRequest` with near misses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from planner.recommend.candidates import Filters
from planner.recommend.errors import BadRequest
from planner.recommend.request import RecommendRequest
from planner.recommend.today import Today
from planner.services.facts import prices_today
from pricing.catalog import Catalog, near_misses
from pricing.errors import PricingError, UnknownName
from pricing.model import PurchaseOption

EVERYWHERE = "all"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a request reaches: quotes as they stand, the regions of each provider, and the filters."""

    today: Today
    regions_of: dict[str, tuple[str, ...]]
    filters: Filters


def resolved(field: str, name: str, look_up: Callable[[str], T]) -> T:
    """Return what a look-up finds, or raise `BadRequest` for the request field that named it."""
    try:
        return look_up(name)
    except UnknownName as e:
        hint = f"did you mean {' or '.join(e.suggestions)}?" if e.suggestions else ""
        raise BadRequest(field=field, value=name, why=f"is no known {e.kind}", expected=hint) from e
    except PricingError as e:
        raise BadRequest(field=field, value=name, why=str(e)) from e


def scope_of(request: RecommendRequest, catalog: Catalog, now: datetime) -> Scope:
    """Return the quotes, regions and filters that a request reaches."""
    regions = regions_asked(request.region, catalog)
    providers = tuple(resolved("provider", name, catalog.provider) for name in request.provider)
    # on-demand besides what is asked: spot is judged by it. Commitments that nobody asks for are most of a refreshed snapshot
    options = {*request.purchase, PurchaseOption.ON_DEMAND}
    quotes = catalog.quotes(regions=regions, providers=providers or None, purchase_options=options)
    filters = filters_of(request, catalog)
    found: dict[str, set[str]] = {}
    for provider, _, region in catalog.options_quoted_in(regions):
        if not providers or provider in providers:
            found.setdefault(provider, set()).add(region)
    for provider in providers:
        if provider not in found:
            raise BadRequest(
                field="region",
                value=", ".join(request.region),
                why=f"has no prices of {provider}",
                expected=_where(catalog, provider),
            )
    if regions is not None:  # a type that is asked for by name is answered about, even where its cloud is not
        for instance in catalog.instance_types():
            if instance.instance_type in filters.instances and (not providers or instance.provider in providers):
                found.setdefault(instance.provider, set(regions))
    return Scope(
        today=prices_today(request, quotes, catalog, now),
        regions_of={p: tuple(sorted(r)) for p, r in sorted(found.items())},
        filters=filters,
    )


def regions_asked(names: Iterable[str], catalog: Catalog) -> tuple[str, ...] | None:
    """Return the regions as the quotes spell them; None means all."""
    asked = tuple(names)
    if not asked:
        raise BadRequest(field="region", value="", why="names no region", expected="for example us-east-1, or all")
    if any(name.strip().casefold() == EVERYWHERE for name in asked):
        return None
    return tuple(dict.fromkeys(resolved("region", name, catalog.region) for name in asked))


def _where(catalog: Catalog, provider: str) -> str:
    regions = sorted({region for seller, _, region in catalog.options_quoted if seller == provider})
    shown = ", ".join(regions[:8]) + (" …" if len(regions) > 8 else "")
    return f"ask for region all or one of {shown}" if regions else "no region of it is priced"


def filters_of(request: RecommendRequest, catalog: Catalog) -> Filters:
    """Return the request's filters with every name resolved."""
    types: set[str] = set()
    families: set[str] = set()
    chips: set[str] = set()
    known_families = {t.family.casefold(): t.family for t in catalog.instance_types()}
    known_types = {t.instance_type.casefold(): t.instance_type for t in catalog.instance_types()}
    for name in request.exclude:
        folded = name.strip().casefold()
        if folded in known_types:
            types.add(known_types[folded])
        elif folded in known_families:
            families.add(known_families[folded])
        else:
            try:
                chips.add(catalog.accelerator(name).name)
            except UnknownName as e:
                near = near_misses(name, [*known_types.values(), *known_families.values(), *catalog.accelerators])
                hint = f"did you mean {' or '.join(near)}?" if near else ""
                raise BadRequest(
                    field="exclude", value=name, why="is no known instance type, family or accelerator", expected=hint
                ) from e
    return Filters(
        instances=frozenset(_type_name(name, known_types, catalog) for name in request.instance),
        accelerators=frozenset(resolved("accelerator", name, catalog.accelerator).name for name in request.accelerator),
        excluded_types=frozenset(types),
        excluded_families=frozenset(families),
        excluded_accelerators=frozenset(chips),
        needs=tuple(dict.fromkeys(request.needs)),
    )


def _type_name(name: str, known: dict[str, str], catalog: Catalog) -> str:
    """Return the spelling of an instance type; several clouds may have one of that name."""
    spelled = known.get(name.strip().casefold())
    return spelled if spelled is not None else resolved("instance", name, catalog.instance_type).instance_type
