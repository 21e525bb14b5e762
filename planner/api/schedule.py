"""Refreshing the prices on a schedule, beside the answers: `planner serve --refresh-every 6h`.

Every worker process has a `Schedule`; the one that holds the lock of the data directory is the leader and starts the refreshes, each in
a process of its own at low priority. When the leader ends, however it ends, the system lets go of the lock and another worker leads.
What became of the last refresh lies in a small file beside the snapshots, so that every worker can tell. A new snapshot needs no
telling: each request looks for the newest one.

After a failure the next refresh comes sooner than the interval, and later with each failure that follows. A failure never makes the
server unready: the last good prices answer, and say how old they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import random
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from planner.services.send_alerts import faults_in

EVERY_VARIABLE: Final = "PLANNER_REFRESH_EVERY"
REGIONS_VARIABLE: Final = "PLANNER_REFRESH_REGIONS"
SOURCES_VARIABLE: Final = "PLANNER_REFRESH_SOURCES"
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_S: Final = 366 * 86400.0

LOCK_FILE, STATE_FILE = "schedule.lock", "schedule.json"
JITTER_FRACTION, MOST_JITTER_S = 0.05, 300.0
"""Added to each pause, up to so much, so that servers that were started together do not ask AWS together."""
FIRST_BACK_OFF_FRACTION, LONGEST_FIRST_BACK_OFF_S = 1 / 16, 300.0
"""Pause after the first failure: a share of the interval, minutes at most; doubled with each further one, up to the interval."""
LOOK_FOR_LEADER_S = 15.0
END_WITHIN_S = 5.0
"""How long a refresh that is told to end may take before it is killed. It can be killed at any moment; this only saves work."""

log = logging.getLogger("planner.api.schedule")


def seconds_of(text: str) -> float:
    """Return an interval written as 30m, 6h or 1d in seconds; ValueError says what would be right."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text.strip().lower(), re.ASCII)
    seconds = float(found[1]) * SECONDS[found[2]] if found else 0.0
    if not 1 <= seconds <= LONGEST_S:
        raise ValueError(f"{text!r} is not an interval; write it as 30m, 6h or 1d")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How often, and of what. Empty regions or sources: those of `planner prices refresh`."""

    every_s: float
    regions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the command line of one refresh."""
        words = [sys.executable, "-m", "planner.api.refresher"]
        for flag, values in (("--region", self.regions), ("--source", self.sources)):
            for value in values:
                words += [f"{flag}={value}"]
        return words


def plan_of(environment: Mapping[str, str]) -> Plan | None:
    """Return the plan that the environment states, None where none is wanted; ValueError for an interval that is none."""
    stated = environment.get(EVERY_VARIABLE, "").strip()
    if not stated:
        return None
    try:
        every = seconds_of(stated)
    except ValueError as e:
        raise ValueError(f"{EVERY_VARIABLE}: {e}") from None

    def listed(variable: str) -> tuple[str, ...]:
        return tuple(name.strip() for name in environment.get(variable, "").split(",") if name.strip())

    return Plan(every_s=every, regions=listed(REGIONS_VARIABLE), sources=listed(SOURCES_VARIABLE))


def check_names(plan: Plan | None) -> Plan | None:
    """Return the plan; ValueError for a region or source that no refresh could ask: it would fail again and again, told in the log alone."""
    if plan is None:
        return None
    from planner.bootstrap import check_refresh_names  # noqa: PLC0415 - the sources load where a schedule is wanted
    from pricing.errors import UnknownName  # noqa: PLC0415

    for variable, regions, sources in ((SOURCES_VARIABLE, (), plan.sources), (REGIONS_VARIABLE, plan.regions, ())):
        try:
            check_refresh_names(regions, sources)
        except UnknownName as e:
            raise ValueError(f"{variable}: {e}") from None
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What became of the refreshes; times are RFC 3339 in UTC."""

    running: bool = False
    last_run: str | None = None  # when the last one began
    last_success: str | None = None  # when one ended in which every source answered
    last_published: str | None = None  # when one ended with a new snapshot
    next_run: str | None = None
    snapshot_id: str | None = None
    failures: int = 0  # in a row
    failed_sources: tuple[Mapping[str, Any], ...] = ()
    alert_faults: tuple[
        str, ...
    ] = ()  # what is wrong with the file of watched prices or whom it names; no failure of the refresh
    why: str | None = None  # there was no whole answer


def after(state: State, said: Mapping[str, Any], *, now: datetime) -> State:
    """Return the state after a refresh that said this."""
    document = said.get("document")
    if document is None:
        told = "another refresh is running" if said.get("busy") else "it failed; the server's log says why"
        # a refresh that somebody else runs is no failure of ours
        failures = state.failures if said.get("busy") else state.failures + 1
        return replace(state, running=False, failures=failures, failed_sources=(), why=told)
    failed = tuple(
        {"source": s["source"], "region": s["region"], "why": s["why"], "kept_as_of": s["kept_as_of"]}
        for s in document["sources"]
        if s["state"] == "failed"
    )
    return replace(
        state,
        running=False,
        snapshot_id=document["snapshot_id"],
        last_success=state.last_success if failed else _text(now),
        last_published=_text(now) if document["published"] else state.last_published,
        failures=state.failures + 1 if failed else 0,
        failed_sources=failed,
        alert_faults=tuple(faults_in(document["alerts"], folders=False)),
        why=f"{len(failed)} of {len(document['sources'])} questions failed" if failed else None,
    )


def pause_s(every_s: float, failures: int, *, busy: bool = False) -> float:
    """Return the seconds until the next refresh, from the beginning of this one, without jitter."""
    if not failures and not busy:
        return every_s
    first = max(1.0, min(every_s * FIRST_BACK_OFF_FRACTION, LONGEST_FIRST_BACK_OFF_S))
    return float(min(every_s, first * 2 ** min(failures - 1, 30))) if failures else float(min(every_s, first))


class Schedule:
    """The refreshes of one server process."""

    def __init__(
        self,
        plan: Plan,
        *,
        folder: Path,
        now: Callable[[], datetime],
        chance: Callable[[], float] = random.random,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.plan = plan
        self._folder, self._now, self._chance = folder, now, chance
        self._environment = environment
        self._complained = ""

    def told(self) -> dict[str, Any]:
        """Return what /readyz says of it."""
        return {"every_s": self.plan.every_s, **asdict(self._state())}

    async def run(self) -> None:
        """Lead or wait to lead, until cancelled."""
        while True:
            lock = self._lead()
            if lock is None:
                await asyncio.sleep(min(LOOK_FOR_LEADER_S, max(1.0, self.plan.every_s / 4)))
                continue
            try:
                await self._refreshes()
            finally:
                os.close(lock)

    async def _refreshes(self) -> None:
        """Refresh again and again."""
        kept = self._state()
        due, state = self._first(kept), replace(kept, running=False)
        while True:
            state = replace(state, next_run=_text(due))
            self._keep(state)
            await asyncio.sleep(max(0.0, (due - self._now()).total_seconds()))
            began = self._now()
            state = replace(state, running=True, last_run=_text(began), next_run=None)
            self._keep(state)
            said = await self._one()
            state = after(state, said, now=self._now())
            _tell(state, said)
            wait = pause_s(self.plan.every_s, state.failures, busy=bool(said.get("busy")))
            due = max(self._now(), began + timedelta(seconds=wait)) + self._jitter(wait)

    def _first(self, state: State) -> datetime:
        """Return when the first refresh of this leader is due: an interval after the last one, soon where there was none or it was cut off."""
        now = self._now()
        soon = now + self._jitter(min(self.plan.every_s, 60.0))
        try:
            last = datetime.fromisoformat(state.last_run) if state.last_run else None
        except ValueError:
            last = None
        if state.running or last is None or last.tzinfo is None or last > now:  # the last: by a clock that was ahead
            return soon
        return max(soon, last + timedelta(seconds=pause_s(self.plan.every_s, state.failures)))

    def _jitter(self, pause: float) -> timedelta:
        return timedelta(seconds=min(pause * JITTER_FRACTION, MOST_JITTER_S) * self._chance())

    async def _one(self) -> Mapping[str, Any]:
        """Return what one refresh said. The process is told to end when this is cancelled."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.plan.command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=None if self._environment is None else dict(self._environment),
                start_new_session=True,  # Ctrl+C in a terminal is for the server, which then ends this one
            )
        except OSError as e:
            return {"failed": f"cannot be started: {e.strerror or e}"}
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            await _ended(process)
            raise
        try:
            said = json.loads(out)
        except ValueError:
            said = None
        if isinstance(said, dict):
            return said
        last = err.decode(errors="replace").strip().splitlines()
        return {"failed": f"ended with status {process.returncode}: {last[-1] if last else 'it said nothing'}"}

    def _lead(self) -> int | None:
        """Return the open lock, or None while another worker leads."""
        path = self._folder / LOCK_FILE
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as e:
            self._complain(f"{path}: cannot be written: {e.strerror}; prices are not refreshed")
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            os.close(descriptor)
            if not isinstance(e, BlockingIOError):
                self._complain(f"{path}: cannot be locked: {e.strerror}; prices are not refreshed")
            return None
        return descriptor

    def _state(self) -> State:
        """Return what is kept; nothing where the file is missing or not ours."""
        try:
            kept = json.loads((self._folder / STATE_FILE).read_text(encoding="utf-8"))
            read = {
                "failed_sources": tuple(kept["failed_sources"]),
                "alert_faults": tuple(kept.get("alert_faults", ())),  # an older version did not write them
            }
            state = State(**kept | read)
        except (OSError, ValueError, TypeError, KeyError):
            return State()
        return state if type(state.failures) is int and state.failures >= 0 else State()

    def _keep(self, state: State) -> None:
        path = self._folder / STATE_FILE
        new = path.with_suffix(".tmp")  # one leader, so one writer
        try:
            new.write_text(json.dumps(asdict(state)), encoding="utf-8")
            new.replace(path)
        except OSError as e:
            self._complain(f"{path}: cannot be written: {e.strerror}; /readyz does not tell of the refreshes")

    def _complain(self, line: str) -> None:
        """Say a line once, not at every look."""
        if line != self._complained:
            log.error("%s", line)
            self._complained = line


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Have a process end: asked first, killed then."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), END_WITHIN_S)
        except TimeoutError:
            process.kill()
            await process.communicate()


def _tell(state: State, said: Mapping[str, Any]) -> None:
    """Write to the log how a refresh ended."""
    if "document" in said:
        document = said["document"]
        log.info(
            "prices refreshed: snapshot %s, %s; %s",
            document["snapshot_id"][:12],
            "published" if document["published"] else "unchanged",
            state.why or "every source answered",
        )
        for failed in state.failed_sources:
            log.warning(
                "%s%s: %s", failed["source"], f" ({failed['region']})" if failed["region"] else "", failed["why"]
            )
        for missing in document["faults"]:
            log.warning("%s: %s", missing["subject"], missing["detail"])
        for fault in faults_in(document["alerts"]):
            log.warning("alerts: %s", fault)
    elif said.get("busy"):
        log.info("prices are being refreshed by another process")
    else:
        log.error("prices were not refreshed: %s", said.get("failed"))


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
