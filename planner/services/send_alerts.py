"""`alerts_after`: which watched prices moved from one snapshot to the next, told to files and webhooks.

An alert is recorded as still to be told before anything is sent, and taken off the record when its sink has it: what cannot be delivered
now is delivered at the next refresh, at least once. Each alert has an id by which a receiver can tell a second delivery.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from planner.ports import Document
from planner.services.documents import instant, unit_price
from planner.services.list_prices import price
from pricing.addresses import told
from pricing.alerts import Alert, Baseline, FileSink, Watches, WebhookSink, alerts_of, blind, loopback, parse_watches
from pricing.catalog import Catalog
from pricing.difference import KEY_FIELDS
from pricing.errors import NotReadable, SheetError, first_of
from pricing.model import INSTANCE_HOUR, PurchaseOption, Quote
from pricing.plain_files import open_to_append, read_text, reason
from pricing.refresh.said import amount

WATCHES_FILE = "alerts.toml"
STATE_FILE = "alerts-state.json"
STATE_VERSION = 1
LARGEST_WATCHES, LARGEST_STATE = 4 * 2**20, 256 * 2**20
MOST_WAITING = 5_000  # alerts that one sink is owed; the oldest go first
A_POST = 500  # alerts in one request
NO_REDIRECT = "it answered with a redirect, which is not followed"


class State:
    """What is remembered between refreshes: the baselines, and what each sink is still owed."""

    def __init__(self) -> None:
        self.baselines: dict[tuple[str, str], Baseline] = {}
        self.waiting: dict[str, list[Document]] = defaultdict(list)


def read_watches(path: Path) -> Watches:
    """Return what a file of watches says; SheetError with every fault, NotReadable where it is no plain file of text."""
    return parse_watches(read_text(path, most_bytes=LARGEST_WATCHES), name=path.name)


def alerts_after(
    previous_catalog: Catalog, new_catalog: Catalog, *, watches_file: Path, state_file: Path, now: datetime
) -> list[Document]:
    """Return the alerts of a new snapshot, each with how its delivery went, and what else went wrong, one document a fault.

    Without a file of watches there is nothing to tell. It never raises for what is wrong with the watches, the record or a sink: the
    snapshot is published already, and the answer says what could not be told.
    """
    try:
        return _alerts_after(previous_catalog, new_catalog, watches_file, state_file, now)
    except Exception as e:  # noqa: BLE001 - what is published stays published, whatever is wrong with telling of it
        return [
            _fault(
                f"no alert was made: {watches_file}: {type(e).__name__}: {told(str(e)) or 'no reason'}",
                watches_file,
            )
        ]


def _alerts_after(
    previous_catalog: Catalog, new_catalog: Catalog, watches_file: Path, state_file: Path, now: datetime
) -> list[Document]:
    if not os.path.lexists(watches_file):
        return []
    faults: list[Document] = []
    try:
        watches = read_watches(watches_file)
    except SheetError as e:
        return [_fault(f"no alert was made: {watches_file}: {'; '.join(first_of(e.faults))}", watches_file)]
    except NotReadable as e:
        return [_fault(f"no alert was made: {watches_file}: cannot be read: {e.why}", watches_file)]
    state = _loaded(state_file, faults)
    quotes = new_catalog.quotes()
    faults += [_fault(f"{watches_file}: {line}", watches_file) for line in blind(watches.watches, quotes)]
    found, state.baselines = alerts_of(watches.watches, state.baselines, previous_catalog.quotes(), quotes, at=now)
    documents = [_document(alert, new_catalog.meta.snapshot_id, now) for alert in found]
    owed = {sink.name for sink in watches.sinks}
    state.waiting = defaultdict(list, {name: list(kept) for name, kept in state.waiting.items() if name in owed})
    for sink in watches.sinks:
        state.waiting[sink.name] = [*state.waiting[sink.name], *documents][-MOST_WAITING:]
    if not _kept(state_file, state, faults):
        return [*documents, *faults]  # what is not on the record would be told again and again
    outcomes: dict[str, str | None] = {}
    for sink in watches.sinks:
        sent, why = _delivered(sink, state.waiting[sink.name], watches_file.parent)
        state.waiting[sink.name] = state.waiting[sink.name][sent:]
        outcomes[sink.name] = why
        if why is not None:
            left = len(state.waiting[sink.name])
            faults.append(
                _fault(f"{sink.name}: {why}; {left} alert{'s' if left != 1 else ''} kept for the next refresh")
            )
    _kept(state_file, state, faults)
    told = [
        {
            **document,
            "deliveries": [{"sink": name, "delivered": why is None, "why": why} for name, why in outcomes.items()],
        }
        for document in documents
    ]
    return [*told, *faults]


def _document(alert: Alert, snapshot_id: str, now: datetime) -> Document:
    """Return an alert as plain JSON values; `message` says it in a line."""
    import hashlib  # noqa: PLC0415 - only where something moved

    quote, base = alert.quote, alert.baseline
    said = price(quote)
    where = " ".join(filter(None, (quote.region, quote.availability_zone_id or quote.availability_zone)))
    message = (
        f"{alert.watch}: {quote.instance_type} {where} {_bought(quote)}: {amount(base.unit_price)} to "
        f"{amount(quote.effective_unit_price)} {quote.currency} {_per(quote)} ({100 * alert.change_fraction:+.1f} %) "
        f"since {base.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    )
    key = f"{snapshot_id}|{alert.watch}|{[said[name] for name in KEY_FIELDS]}"
    return {
        "id": hashlib.sha256(key.encode()).hexdigest()[:16],
        "kind": "moved",
        "watch": alert.watch,
        **{name: said[name] for name in KEY_FIELDS},
        "old_unit_price": unit_price(base.unit_price),
        "new_unit_price": unit_price(quote.effective_unit_price),
        "change_fraction": float(alert.change_fraction),
        "since": instant(base.at),
        "at": instant(now),
        "snapshot_id": snapshot_id,
        "source": quote.source,
        "message": message,
    }


def _bought(quote: Quote) -> str:
    """Return how a price is paid, as lists of prices say it: "on-demand", "reserved 1yr, all upfront, standard"."""
    option = quote.purchase_option
    terms = (quote.payment_option, quote.plan_type, quote.offering_class)
    words = ["on-demand" if option is PurchaseOption.ON_DEMAND else option.value, *filter(None, terms)]
    return ", ".join(word.replace("_", " ") for word in words)


def _per(quote: Quote) -> str:
    return "per hour" if quote.unit == INSTANCE_HOUR else f"per {quote.unit.replace('_', ' ')}"


def faults_in(alerts: Iterable[Document], *, folders: bool = True) -> list[str]:
    """Return what could not be told and why, a line each, of the `alerts` of a refresh; without `folders` files have their name alone."""
    found = [(str(a["message"]), a.get("path")) for a in alerts if a.get("kind") == "fault"]
    return [said if folders or path is None else said.replace(path, Path(path).name) for said, path in found]


def _fault(message: str, path: Path | None = None) -> Document:
    return {"kind": "fault", "message": message, "path": None if path is None else str(path)}


def _delivered(sink: FileSink | WebhookSink, alerts: Sequence[Document], folder: Path) -> tuple[int, str | None]:
    """Return how many of the alerts, from the first, the sink has now, and why not all."""
    if not alerts:
        return 0, None
    if isinstance(sink, FileSink):
        try:
            path = folder / Path(sink.path).expanduser()
        except RuntimeError as e:  # ~somebody who is not known here
            return 0, f"cannot be written: {e}"
        return _appended(path, alerts)
    return _posted(sink, alerts)


def _appended(path: Path, alerts: Iterable[Document]) -> tuple[int, str | None]:
    """Add a line an alert to a plain file, which may be a new one in a folder that is there; nothing is waited for."""
    lines = [json.dumps(alert, ensure_ascii=False) + "\n" for alert in alerts]
    try:
        with open_to_append(path) as file:
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
    except NotReadable as e:
        return 0, f"cannot be written: {e.why}"
    except OSError as e:
        return 0, f"cannot be written: {reason(e)}"
    return len(lines), None


def _posted(sink: WebhookSink, alerts: Sequence[Document]) -> tuple[int, str | None]:
    from urllib.parse import urlsplit  # noqa: PLC0415

    import httpx  # noqa: PLC0415 - only where something is to be told

    headers = {}
    if sink.secret_env is not None:
        secret = os.environ.get(sink.secret_env, "")
        if not secret.strip():
            return 0, f"the environment variable {sink.secret_env} is not set"
        if not (secret.isascii() and secret.isprintable()):
            return 0, f"the environment variable {sink.secret_env} holds signs that a header cannot have"
        headers[sink.header] = secret.strip()
    here = loopback(urlsplit(sink.url).hostname or "")
    sent = 0
    try:
        with httpx.Client(timeout=sink.timeout_s, follow_redirects=False, trust_env=not here) as client:
            while sent < len(alerts):
                batch = alerts[sent : sent + A_POST]
                text = "\n".join(alert["message"] for alert in batch)
                said = {"text": text, "alerts": batch}
                with client.stream("POST", sink.url, headers=headers, json=said) as answer:  # what it says is not read
                    if not answer.is_success:
                        return sent, NO_REDIRECT if answer.is_redirect else f"it answered HTTP {answer.status_code}"
                sent += len(batch)
    except httpx.TimeoutException:
        return sent, f"no answer within {sink.timeout_s:g} s"
    except (httpx.InvalidURL, UnicodeError):  # a host that no name can be; its words could repeat what is secret
        return sent, "is no address"
    except httpx.HTTPError as e:
        return sent, f"no connection: {told(str(e))}" if str(e) else "no connection"
    return sent, None


def _loaded(path: Path, faults: list[Document]) -> State:
    """Return what is remembered; a record that cannot be read is begun anew, and that is said."""
    state = State()
    if not os.path.lexists(path):
        return state
    try:
        said = json.loads(read_text(path, most_bytes=LARGEST_STATE))
        if (version := said["version"]) != STATE_VERSION:
            faults.append(_fault(f"{path}: the record of alerts is of version {version} and is begun anew", path))
            return State()
        for row in said["baselines"]:
            state.baselines[row["watch"], row["key"]] = Baseline(
                unit_price=Decimal(row["unit_price"]),
                currency=row["currency"],
                unit=row["unit"],
                at=datetime.fromisoformat(row["at"]),
            )
        state.waiting |= {str(name): list(kept) for name, kept in said["waiting"].items()}
    except (NotReadable, ValueError, KeyError, TypeError, AttributeError, InvalidOperation, RecursionError) as e:
        why = e.why if isinstance(e, NotReadable) else str(e)
        faults.append(_fault(f"{path}: the record of alerts cannot be read and is begun anew: {why}", path))
        return State()
    return state


def _kept(path: Path, state: State, faults: list[Document]) -> bool:
    """Write what is to be remembered in one step; say whether it was."""
    document: dict[str, Any] = {
        "version": STATE_VERSION,
        "baselines": [
            {
                "watch": watch,
                "key": key,
                "unit_price": unit_price(base.unit_price),
                "currency": base.currency,
                "unit": base.unit,
                "at": base.at.isoformat(),
            }
            for (watch, key), base in sorted(state.baselines.items())
        ],
        "waiting": {name: kept for name, kept in sorted(state.waiting.items()) if kept},
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as e:
        temporary.unlink(missing_ok=True)
        faults.append(
            _fault(f"{path}: the record of alerts cannot be written, nothing was told: {e.strerror or e}", path)
        )
        return False
    return True
