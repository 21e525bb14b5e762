"""Watched prices: what to watch, where to tell, and which of them moved by more than was asked. Pure; sending is elsewhere.

    [[watch]]
    name            = "H100 at AWS"            # how its alerts are called
    more_than       = 5                        # percent, against the price at the last alert
    direction       = "down"                   # up, down or any (default)
    family          = ["p5", "p5en"]           # selectors, each a text or a list of texts; those left out select everything
    region          = "us-east-1"
    purchase_option = ["on_demand", "spot"]

    [[file]]                                   # each alert as a line of JSON
    path = "alerts.jsonl"                      # beside this file, unless absolute

    [[webhook]]                                # POST {"text", "alerts"} as JSON
    url           = "https://chat.example/hook"
    secret_env    = "ALERTS_TOKEN"             # environment variable that holds the value of the header below
    secret_header = "Authorization"
    timeout_s     = 10

Selectors are `provider`, `instance_type`, `family`, `region`, `zone` (id or name) and `purchase_option`. The price of a moment is compared
with that at the last alert of the same watch, so that a price that creeps is told as well as one that jumps.
"""

from __future__ import annotations

import difflib
import hashlib
import ipaddress
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from pricing.addresses import host_of
from pricing.amounts import PERCENT_MOVED, shown, stated_number
from pricing.checks import quote_key
from pricing.errors import SheetError
from pricing.model import PurchaseOption, Quote

SELECTORS = ("provider", "instance_type", "family", "region", "zone", "purchase_option")
DIRECTIONS = ("any", "up", "down")
WATCH_KEYS = ("name", "more_than", "direction", *SELECTORS)
WEBHOOK_KEYS = ("url", "secret_env", "secret_header", "timeout_s")
TABLES = ("watch", "file", "webhook")
SECRET_KEYS = ("url", "secret_env")
"""Keys whose values are not repeated: an address can be a secret, and a secret can stand where its name should."""
LONGEST_WAIT_S = 60.0
BETWEEN = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Which prices to watch, and by which share (above zero) they must move to be told of. An empty selector lets everything pass."""

    name: str
    share: Decimal
    direction: str = "any"
    provider: tuple[str, ...] = ()
    instance_type: tuple[str, ...] = ()
    family: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    zone: tuple[str, ...] = ()
    purchase_option: tuple[str, ...] = ()

    def sees(self, quote: Quote) -> bool:
        """Return whether a price is watched."""
        zones = {quote.availability_zone_id, quote.availability_zone}
        return (
            _admits(self.provider, quote.provider)
            and _admits(self.instance_type, quote.instance_type)
            and _admits(self.family, quote.instance_type.partition(".")[0])
            and _admits(self.region, quote.region)
            and _admits(self.purchase_option, quote.purchase_option.value)
            and (not self.zone or not zones.isdisjoint(self.zone))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink:
    """A file to which each alert is added as a line of JSON."""

    path: str

    @property
    def name(self) -> str:
        """Return how the sink is called."""
        return f"file {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSink:
    """An address to which alerts are posted; https, or http on this machine."""

    url: str
    secret_env: str | None = None
    header: str = "Authorization"
    timeout_s: float = 10.0

    @property
    def name(self) -> str:
        """Return how the sink is called: scheme, host and a mark of the rest, as that can hold a secret."""
        return f"webhook {host_of(self.url)} ({hashlib.sha256(self.url.encode()).hexdigest()[:6]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watches:
    """What a file of watches says."""

    watches: tuple[Watch, ...]
    sinks: tuple[FileSink | WebhookSink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The price that the next one is compared with, and when it was seen."""

    unit_price: Decimal
    currency: str
    unit: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One watched price that moved, and by what share of the baseline."""

    watch: str
    quote: Quote
    baseline: Baseline
    change_fraction: Decimal


Baselines = Mapping[tuple[str, str], Baseline]
"""By the name of the watch and the key of the price (`price_key`)."""


def parse_watches(text: str, *, name: str) -> Watches:
    """Return what a file of watches says; SheetError with every fault."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation) as e:
        why = "a number beyond all" if isinstance(e, InvalidOperation) else e
        raise SheetError(sheet=name, faults=(f"is not TOML: {why}",)) from e
    faults: list[str] = []
    _known(document, TABLES, "", faults)
    watches = [
        watch
        for number, table in enumerate(_tables(document, "watch", faults), 1)
        if (watch := _watch(table, f"watch {number}: ", faults)) is not None
    ]
    sinks: list[FileSink | WebhookSink] = []
    for number, table in enumerate(_tables(document, "file", faults), 1):
        _known(table, ("path",), f"file {number}: ", faults)
        if path := _text(table, "path", f"file {number}: ", faults, required=True):
            sinks.append(FileSink(path=path))
    for number, table in enumerate(_tables(document, "webhook", faults), 1):
        if (hook := _webhook(table, f"webhook {number}: ", faults)) is not None:
            sinks.append(hook)
    faults += [f"two watches are called {n!r}" for n, times in Counter(w.name for w in watches).items() if times > 1]
    faults += [f"{n} is given {times} times" for n, times in Counter(s.name for s in sinks).items() if times > 1]
    if not watches and not faults:
        faults.append("holds no [[watch]]: nothing would be told")
    if faults:
        raise SheetError(sheet=name, faults=tuple(faults))
    return Watches(watches=tuple(watches), sinks=tuple(sinks))


def price_key(quote: Quote) -> str:
    """Return what a watched price is called in the record: the same in every snapshot."""
    return BETWEEN.join("" if part is None else str(part) for part in quote_key(quote))


def moved(baseline: Decimal, now: Decimal) -> Decimal:
    """Return the share by which a price differs from its baseline: 55.04 after 98.32 is -0.4402."""
    return now / baseline - 1


def alerts_of(
    watches: Iterable[Watch], baselines: Baselines, before: Sequence[Quote], after: Sequence[Quote], *, at: datetime
) -> tuple[list[Alert], dict[tuple[str, str], Baseline]]:
    """Return which watched prices moved, and the baselines of next time.

    A price without a baseline starts from the one that it had `before`, else from its own. After an alert the new price is the baseline;
    without one the old stays, however often it is compared. A price in another currency or unit than its baseline starts anew. A price
    that is gone keeps its baseline for when it comes back.
    """
    old = {price_key(q): q for q in before}
    alerts: list[Alert] = []
    out: dict[tuple[str, str], Baseline] = {}
    for watch in watches:
        kept = {key: base for key, base in baselines.items() if key[0] == watch.name}
        for quote in after:
            if not watch.sees(quote) or quote.effective_unit_price <= 0:
                continue
            key = (watch.name, price_key(quote))
            base = kept.get(key)
            if base is None and (was := old.get(key[1])) is not None and was.effective_unit_price > 0:
                base = _baseline(was, was.retrieved_at)
            if base is None or (base.currency, base.unit) != (quote.currency, quote.unit):
                base = _baseline(quote, at)
            share = moved(base.unit_price, quote.effective_unit_price)
            if abs(share) > watch.share and watch.direction in {"any", "up" if share > 0 else "down"}:
                alerts.append(Alert(watch=watch.name, quote=quote, baseline=base, change_fraction=share))
                base = _baseline(quote, at)
            kept[key] = base
        out |= kept
    return alerts, out


def blind(watches: Iterable[Watch], quotes: Sequence[Quote]) -> list[str]:
    """Return a line for each watch that selects no price: it would be silent for ever, and a misspelt name is the usual reason."""
    lines = []
    for watch in watches:
        if any(watch.sees(quote) for quote in quotes):
            continue
        why = "no price fits all of its selectors at once"
        for key in SELECTORS:
            has = _values(quotes, key)
            strange = [value for value in getattr(watch, key) if value not in has]
            if strange:
                near = difflib.get_close_matches(strange[0], has, n=2, cutoff=0.8)
                why = f"no price has the {key} {' or '.join(map(repr, strange))}" + (f"; did you mean {' or '.join(near)}?" if near else "")  # fmt: skip
                break
        lines.append(f"watch {watch.name!r} selects no price of this snapshot: {why}")
    return lines


def _values(quotes: Iterable[Quote], key: str) -> list[str]:
    """Return what the prices have under a selector."""
    if key == "zone":
        return sorted({z for q in quotes for z in (q.availability_zone_id, q.availability_zone) if z is not None})
    if key == "family":
        return sorted({q.instance_type.partition(".")[0] for q in quotes})
    return sorted({str(getattr(q, key)) for q in quotes})


def _baseline(quote: Quote, at: datetime) -> Baseline:
    return Baseline(unit_price=quote.effective_unit_price, currency=quote.currency, unit=quote.unit, at=at)


def _admits(wanted: tuple[str, ...], has: str) -> bool:
    return not wanted or has in wanted


def _watch(table: Mapping[str, Any], place: str, faults: list[str]) -> Watch | None:
    before = len(faults)
    _known(table, WATCH_KEYS, place, faults)
    name = _text(table, "name", place, faults, required=True)
    percent = table.get("more_than")
    number = Decimal(0) if isinstance(percent, str) else stated_number(percent) or Decimal(0)
    if number <= 0:
        faults.append(f"{place}more_than must be a number of percent above 0, not {shown(percent)}")
    elif (why := PERCENT_MOVED.why_not(number)) is not None:
        faults.append(f"{place}more_than {why}")
    direction = table.get("direction", "any")
    if direction not in DIRECTIONS:
        faults.append(f"{place}direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
    chosen = {key: _texts(table, key, place, faults) for key in SELECTORS}
    options = tuple(option.value for option in PurchaseOption)
    faults += [
        f"{place}purchase_option must be one of {', '.join(options)}, not {word!r}"
        for word in chosen["purchase_option"]
        if word not in options
    ]
    if len(faults) > before:
        return None
    return Watch(name=name, share=number / 100, direction=direction, **chosen)


def _webhook(table: Mapping[str, Any], place: str, faults: list[str]) -> WebhookSink | None:
    before = len(faults)
    _known(table, WEBHOOK_KEYS, place, faults)
    url = _text(table, "url", place, faults, required=True)
    if url and (why := _bad_address(url)):
        faults.append(f"{place}url {why}")
    env, header = _text(table, "secret_env", place, faults), _text(table, "secret_header", place, faults)
    if env and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", env):
        faults.append(f"{place}secret_env must be the name of an environment variable, which holds the secret")
    if header and not re.fullmatch(r"[A-Za-z0-9-]+", header):
        faults.append(f"{place}secret_header must be the name of an HTTP header, not {header!r}")
    if header and not env:
        faults.append(f"{place}secret_header needs secret_env, the environment variable that holds its value")
    wait = table.get("timeout_s", 10)
    number = Decimal(0) if isinstance(wait, str) else stated_number(wait) or Decimal(0)
    if not 0 < number <= Decimal(LONGEST_WAIT_S):
        faults.append(f"{place}timeout_s must be above 0 and at most {LONGEST_WAIT_S:g}, not {shown(wait)}")
    if len(faults) > before:
        return None
    return WebhookSink(url=url, secret_env=env or None, header=header or "Authorization", timeout_s=float(number))


def _bad_address(url: str) -> str | None:
    """Return why nothing may be posted to an address; None where it may."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # whose words repeat parts of it
        return "is no address"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password: use secret_env"
    if parts.scheme not in {"http", "https"} or not host or not url.isprintable() or " " in url:
        return f"must be an https address, not {parts.scheme or 'one without a scheme'}"
    if parts.scheme == "http" and not loopback(host):
        return "must be https: plain http is for this machine alone"
    return None


def loopback(host: str) -> bool:
    """Return whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tables(document: Mapping[str, Any], key: str, faults: list[str]) -> list[Mapping[str, Any]]:
    given = document.get(key, [])
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        faults.append(f"{key} must be tables, each begun by [[{key}]]")
        return []
    return given


def _known(table: Mapping[str, Any], keys: Sequence[str], place: str, faults: list[str]) -> None:
    for key in table:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            faults.append(f"{place}unknown key {key!r}; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}"))  # fmt: skip


def _text(table: Mapping[str, Any], key: str, place: str, faults: list[str], *, required: bool = False) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or not value.isprintable() or (required and not value.strip()):
        told = "" if key in SECRET_KEYS else f", not {shown(value)}"
        faults.append(f"{place}{key} must be a text on one line" + (", and is missing" if key not in table else told))
        return ""
    return value.strip()


def _texts(table: Mapping[str, Any], key: str, place: str, faults: list[str]) -> tuple[str, ...]:
    value = table.get(key, [])
    given = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) and text.strip() for text in given):
        faults.append(f"{place}{key} must be a text or a list of texts, not {shown(value)}")
        return ()
    return tuple(text.strip() for text in given)
