"""What a refresh asks: units of one source in one region, each an answer of its own that succeeds, fails and is resumed alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pricing.errors import SourceFailed, UnknownName
from pricing.source import Source, SourceReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One source asked about one region (None: it answers for all at once)."""

    source: Source
    region: str | None
    instead_of: str | None = None  # the source for which it stands in

    @property
    def name(self) -> str:
        """Return how it is called in progress and in messages: "spot us-east-1"."""
        return self.source.name if self.region is None else f"{self.source.name} {self.region}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a unit ended: with a reading (read now, or resumed from an earlier attempt) or with a failure."""

    unit: Unit
    reading: SourceReading | None = None
    resumed: bool = False
    failure: SourceFailed | None = None


def chosen(sources: Sequence[Source], names: Iterable[str]) -> tuple[Source, ...]:
    """Return the sources of those names, or the default ones where none is named; UnknownName with near misses.

    A name before a dot stands for all that begin so: "gpuhunt" for "gpuhunt.gcp", "gpuhunt.azure" and the others.
    """
    from pricing.catalog import near_misses  # noqa: PLC0415 - on the way to an error

    known = {name for source in sources for name in (source.name, source.name.partition(".")[0])}
    wanted = set(names)
    for name in sorted(wanted - known):
        raise UnknownName("source", name, near_misses(name, known))
    return tuple(
        s for s in sources if (s.name in wanted or s.name.partition(".")[0] in wanted if wanted else s.default)
    )


def planned(sources: Iterable[Source], regions: Sequence[str]) -> tuple[Unit, ...]:
    """Return the units in the order in which they are begun: source by source, region by region."""
    return tuple(
        Unit(source=source, region=region)
        for source in sources
        for region in (dict.fromkeys(regions) if source.regional else (None,))
    )


def stand_in(unit: Unit, stand_ins: Mapping[str, Source]) -> Unit | None:
    """Return the unit that answers the same question without credentials, if there is one."""
    source = stand_ins.get(unit.source.name)
    return None if source is None else Unit(source=source, region=unit.region, instead_of=unit.source.name)
