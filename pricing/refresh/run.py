"""Carrying out a plan: several units at once, each failing alone, with progress told and every reading staged as it arrives."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pricing.addresses import told
from pricing.errors import AccessDenied, CredentialsMissing, PricingError, SourceFailed
from pricing.refresh.errors import NotWritable
from pricing.refresh.plan import Outcome, Unit, stand_in
from pricing.refresh.staging import Staging
from pricing.source import Ask, Source

WORKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a refresh is. `eta_s`: what is left at the rate so far; None before the first unit has ended."""

    total: int
    done: int = 0
    failed: int = 0
    answers: int = 0  # pages and parts read
    rows: int = 0
    elapsed_s: float = 0.0
    eta_s: float | None = None
    ended: Outcome | None = None  # the unit that has just ended, if that is the event


class _Stopped(Exception):  # noqa: N818 - reads as what it says
    """The refresh is over: raised in workers at their next answer."""


def read_all(
    units: Sequence[Unit],
    ask_of: Callable[[Unit], Ask],
    *,
    staging: Staging,
    newer_than: datetime | None,
    stand_ins: Mapping[str, Source],
    no_credentials: CredentialsMissing | None = None,
    workers: int = WORKERS,
    progress: Callable[[Progress], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Outcome, ...]:
    """Ask every unit and return how each ended, in the order of the plan whatever ended first.

    A unit that fails for want of credentials or a permission is followed by its stand-in, if it has one. `no_credentials`: what is
    known beforehand, so that sources that need some are not asked in vain. An interruption leaves what was staged.
    """
    run = _Run(
        units,
        ask_of,
        staging=staging,
        newer_than=newer_than,
        stand_ins=stand_ins,
        no_credentials=no_credentials,
        progress=progress,
        clock=clock,
    )
    return run.finished(workers)


class _Run:
    """One refresh in progress; its counts are only touched under its lock."""

    def __init__(
        self,
        units: Sequence[Unit],
        ask_of: Callable[[Unit], Ask],
        *,
        staging: Staging,
        newer_than: datetime | None,
        stand_ins: Mapping[str, Source],
        no_credentials: CredentialsMissing | None,
        progress: Callable[[Progress], None],
        clock: Callable[[], float],
    ) -> None:
        self._ask_of, self._staging, self._newer_than = ask_of, staging, newer_than
        self._stand_ins, self._no_credentials = stand_ins, no_credentials
        self._tell, self._clock = progress, clock
        self._waiting: queue.SimpleQueue[tuple[tuple[int, int], Unit] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[tuple[int, int], Outcome] | BaseException] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._began = clock()
        self._asked = 0  # units ended that were not resumed: the rate of the rest
        self._state = Progress(total=len(units))
        for place, unit in enumerate(units):
            self._waiting.put(((place, 0), unit))

    def finished(self, workers: int) -> tuple[Outcome, ...]:
        """Start the workers and wait until every unit has ended."""
        self._say(self._state)
        threads = [
            # daemons: an answer that is slow in coming does not hold up the end of the program
            threading.Thread(target=self._work, name=f"refresh-{n}", daemon=True)
            for n in range(max(1, min(workers, self._state.total)))
        ]
        for thread in threads:
            thread.start()
        outcomes: dict[tuple[int, int], Outcome] = {}
        try:
            while len(outcomes) < self._state.total:
                try:
                    ended = self._ended.get(timeout=0.1)  # short, so that Ctrl+C is noticed
                except queue.Empty:
                    continue
                if isinstance(ended, BaseException):
                    raise ended  # noqa: TRY301 - the worker's own error, raised where it is waited for
                place, outcome = ended
                outcomes[place] = outcome
        except BaseException:
            self._stop.set()
            raise
        finally:
            for _ in threads:
                self._waiting.put(None)
        for thread in threads:
            thread.join()
        return tuple(outcome for _, outcome in sorted(outcomes.items(), key=lambda pair: pair[0]))

    def _work(self) -> None:
        while (next_one := self._waiting.get()) is not None and not self._stop.is_set():
            place, unit = next_one
            try:
                outcome = self._outcome(unit)
                self._count(place, outcome)
            except _Stopped:
                return
            except BaseException as e:  # noqa: BLE001 - told to the thread that waits, which raises it
                self._ended.put(e)
                return
            self._ended.put((place, outcome))

    def _outcome(self, unit: Unit) -> Outcome:
        if self._no_credentials is not None and unit.source.needs_credentials:
            return Outcome(unit=unit, failure=self._no_credentials)
        ask = replace(self._ask_of(unit), on_answer=self._answered)
        kept = self._staging.kept(unit, ask, newer_than=self._newer_than)
        if kept is not None:
            return Outcome(unit=unit, reading=kept, resumed=True)
        try:
            reading = unit.source.read(ask)
        except SourceFailed as e:
            return Outcome(unit=unit, failure=e)
        except (_Stopped, NotWritable):
            raise
        except PricingError as e:
            return Outcome(unit=unit, failure=SourceFailed(source=unit.source.name, why=str(e)))
        except Exception as e:  # noqa: BLE001 - a fault in one source must not lose the others' answers
            why = f"{type(e).__name__}: {told(str(e))} (a fault of planner: please report it)"
            failure = SourceFailed(source=unit.source.name, why=why)
            failure.__cause__ = e
            return Outcome(unit=unit, failure=failure)
        self._staging.keep(unit, ask, reading)
        return Outcome(unit=unit, reading=reading)

    def _answered(self) -> None:
        if self._stop.is_set():
            raise _Stopped
        with self._lock:
            self._state = replace(self._state, answers=self._state.answers + 1, ended=None)
            self._say(self._state)

    def _count(self, place: tuple[int, int], outcome: Outcome) -> None:
        """Take an outcome into the counts; where a stand-in follows, there is one unit more."""
        following = None
        if isinstance(outcome.failure, (CredentialsMissing, AccessDenied)):
            following = stand_in(outcome.unit, self._stand_ins)
        with self._lock:
            state = self._state
            self._asked += not outcome.resumed
            done, total = state.done + 1, state.total + (following is not None)
            rate = (self._clock() - self._began) / self._asked if self._asked else None
            self._state = replace(
                state,
                total=total,
                done=done,
                failed=state.failed + (outcome.failure is not None),
                rows=state.rows + (0 if outcome.reading is None else rows_in(outcome)),
                eta_s=None if rate is None else rate * (total - done),
                ended=outcome,
            )
            self._say(self._state)
            if following is not None:
                self._waiting.put(((place[0], place[1] + 1), following))

    def _say(self, state: Progress) -> None:
        self._tell(replace(state, elapsed_s=self._clock() - self._began))


def rows_in(outcome: Outcome) -> int:
    """Return how many rows of any table a unit has brought."""
    reading = outcome.reading
    if reading is None:
        return 0
    tables: Iterable[Sequence[object]] = (
        reading.quotes,
        reading.instance_types,
        reading.rates,
        reading.interruptions,
        reading.zone_offerings,
        reading.capacity_blocks,
        reading.placement_scores,
        reading.quotas,
    )
    return sum(len(rows) for rows in tables)
