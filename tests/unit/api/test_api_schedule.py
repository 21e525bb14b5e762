"""The schedule of refreshes: how often, who leads, how long after a failure, and what /readyz tells."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from planner.api.schedule import (
    LOCK_FILE,
    STATE_FILE,
    Plan,
    Schedule,
    State,
    _tell,
    after,
    pause_s,
    plan_of,
    seconds_of,
)

NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("6h", 21600), ("1d", 86400), ("1.5h", 5400), (" 90 S ", 90), ("366d", 31622400)]
)  # fmt: skip
def test_interval_in_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "6", "6 hours", "-1h", "0h", "0.5s", "367d", "h", "1e3h", "٦h"])
def test_interval_that_is_none_says_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it as 30m, 6h or 1d"):
        seconds_of(text)


def test_plan_of_the_environment() -> None:
    assert plan_of({}) is None
    assert plan_of({"PLANNER_REFRESH_EVERY": " "}) is None
    stated = {"PLANNER_REFRESH_EVERY": "6h", "PLANNER_REFRESH_REGIONS": "us-east-1, eu-west-1,", "PLANNER_REFRESH_SOURCES": "spot"}  # fmt: skip
    assert plan_of(stated) == Plan(every_s=21600, regions=("us-east-1", "eu-west-1"), sources=("spot",))
    with pytest.raises(ValueError, match="PLANNER_REFRESH_EVERY: 'often' is not an interval"):
        plan_of({"PLANNER_REFRESH_EVERY": "often"})


@pytest.mark.parametrize(
    ("failures", "busy", "pause"),
    [
        (0, False, 21600),
        (1, False, 300),  # 21600 / 16 = 1350, and five minutes at most
        (2, False, 600),
        (5, False, 4800),
        (7, False, 19200),
        (8, False, 21600),  # never longer than the interval
        (500, False, 21600),
        (0, True, 300),
    ],
)
def test_pause_after_failures_doubles_up_to_the_interval(failures: int, busy: bool, pause: float) -> None:
    assert pause_s(21600, failures, busy=busy) == pause


def document(**more: Any) -> dict[str, Any]:
    read = {"source": "spot", "region": "us-east-1", "state": "read", "why": None, "kept_as_of": None}
    return {"snapshot_id": "abc", "published": True, "sources": [read], "faults": [], "alerts": []} | more


def test_state_after_a_whole_refresh() -> None:
    state = after(
        State(failures=3, why="it failed", last_run="2026-07-20T11:59:00Z"), {"document": document()}, now=NOW
    )
    assert (state.failures, state.why, state.snapshot_id) == (0, None, "abc")
    assert (state.last_run, state.last_success, state.last_published) == ("2026-07-20T11:59:00Z", "2026-07-20T12:00:00Z", "2026-07-20T12:00:00Z")  # fmt: skip


def test_state_after_a_source_failed_keeps_the_last_success() -> None:
    failed = {
        "source": "savings_plans",
        "region": "us-east-1",
        "state": "failed",
        "why": "access denied to savingsplans:DescribeSavingsPlansOfferingRates",
        "kept_as_of": "2026-07-19T00:00:00Z",
    }
    before = State(last_success="2026-07-19T00:00:00Z")
    state = after(before, {"document": document(sources=[*document()["sources"], failed])}, now=NOW)
    assert (state.last_success, state.last_published) == ("2026-07-19T00:00:00Z", "2026-07-20T12:00:00Z")
    assert (state.failures, state.why) == (1, "1 of 2 questions failed")
    assert state.failed_sources[0]["why"] == "access denied to savingsplans:DescribeSavingsPlansOfferingRates"
    assert state.failed_sources[0]["kept_as_of"] == "2026-07-19T00:00:00Z"


def test_a_broken_file_of_watches_is_told_and_is_no_failure() -> None:
    fault = {"kind": "fault", "message": "no alert was made: /srv/data/alerts.toml: is not TOML", "path": "/srv/data/alerts.toml"}  # fmt: skip
    said = document(alerts=[{"kind": "moved", "message": "p5 is cheaper"}, fault])
    state = after(State(failures=2, why="it failed"), {"document": said}, now=NOW)
    assert state.alert_faults == ("no alert was made: alerts.toml: is not TOML",)
    assert (state.failures, state.why, state.last_published) == (0, None, "2026-07-20T12:00:00Z")
    assert after(state, {"document": document()}, now=NOW).alert_faults == ()


def test_what_was_not_recorded_is_told_in_the_log_and_is_no_failure_of_the_prices(caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    said = {
        "document": document(faults=[{"subject": "database", "detail": "not recorded: the snapshot: it is locked"}])
    }
    state = after(State(failures=1), said, now=NOW)
    _tell(state, said)
    assert (state.failures, state.why) == (0, None)
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        "database: not recorded: the snapshot: it is locked"
    ]


def test_state_after_a_failure_tells_no_paths() -> None:
    state = after(State(), {"failed": "/srv/data/refresh.lock: cannot be written", "busy": False}, now=NOW)
    assert (state.failures, state.why) == (1, "it failed; the server's log says why")


def test_refresh_of_another_process_is_no_failure() -> None:
    state = after(State(failures=2), {"failed": "process 5 is refreshing", "busy": True}, now=NOW)
    assert (state.failures, state.why) == (2, "another refresh is running")


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (State(), NOW),
        (State(last_run="2026-07-20T10:00:00Z"), NOW + timedelta(hours=4)),  # six after the last
        (State(last_run="2026-07-19T10:00:00Z"), NOW),  # overdue
        (
            State(last_run="2026-07-20T11:59:00Z", failures=1),
            NOW + timedelta(minutes=4),
        ),  # five minutes after a failure
        (State(last_run="2026-07-20T11:59:00Z", running=True), NOW),  # cut off
        (State(last_run="2027-01-01T00:00:00Z"), NOW),  # by a clock that was ahead
        (State(last_run="yesterday"), NOW),
    ],
)
def test_first_refresh_of_a_server(tmp_path: Path, state: State, due: datetime) -> None:
    own = Schedule(Plan(every_s=21600), folder=tmp_path, now=lambda: NOW, chance=lambda: 0.0)
    assert own._first(state) == due


# with processes

SAYS = f"import json, sys; sys.stdout.write(json.dumps({{'document': {document()!r}}}))"


class Scripted(Plan):
    """A plan whose refresh is a little program; it writes down that it began."""

    program = SAYS
    log: Path

    def command(self) -> list[str]:
        begun = f"open({str(Scripted.log)!r}, 'a').write('x')"
        return [sys.executable, "-c", f"{begun}; {Scripted.program}"]


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Scripted, "log", tmp_path / "begun", raising=False)
    return tmp_path / "begun"


def begun(log: Path) -> int:
    return len(log.read_text()) if log.exists() else 0


def schedule(folder: Path, every_s: float = 1.0) -> Schedule:
    return Schedule(Scripted(every_s=every_s), folder=folder, now=lambda: datetime.now(UTC), chance=lambda: 0.0)


async def until(what: Any, seconds: float = 20.0) -> None:
    for _ in range(int(seconds / 0.02)):
        if what():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_only_one_of_several_leads_and_another_takes_over(tmp_path: Path, scripted: Path) -> None:
    async def story() -> None:
        first = asyncio.create_task(schedule(tmp_path / "data", 600).run())
        await until(lambda: begun(scripted) == 1)
        others = [asyncio.create_task(schedule(tmp_path / "data", 2).run()) for _ in range(3)]
        await asyncio.sleep(1.5)
        assert begun(scripted) == 1  # the others wait
        (tmp_path / "data" / STATE_FILE).unlink()  # so that who leads next begins at once
        await ended(first)
        await until(lambda: begun(scripted) >= 2)
        await ended(*others)

    asyncio.run(story())


def test_state_is_kept_for_every_worker(tmp_path: Path, scripted: Path) -> None:
    async def story() -> None:
        leader, other = schedule(tmp_path / "data", 600), schedule(tmp_path / "data", 600)
        assert other.told()["last_run"] is None
        task = asyncio.create_task(leader.run())
        await until(lambda: other.told()["last_success"] is not None and other.told()["next_run"] is not None)
        told = other.told()
        assert (told["every_s"], told["running"], told["snapshot_id"], told["failures"]) == (600, False, "abc", 0)
        apart = datetime.fromisoformat(told["next_run"]) - datetime.fromisoformat(told["last_run"])
        assert abs(apart - timedelta(seconds=600)) <= timedelta(seconds=1)
        await ended(task)
        # a server that starts anew does not refresh anew at once
        again = asyncio.create_task(schedule(tmp_path / "data", 600).run())
        await asyncio.sleep(1.0)
        assert begun(scripted) == 1
        await ended(again)

    asyncio.run(story())


def test_program_that_fails_is_tried_again_and_counted(tmp_path: Path, scripted: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(Scripted, "program", "raise SystemExit('out of luck')")

    async def story() -> None:
        own = schedule(tmp_path / "data", 16.0)  # first pause: one second
        task = asyncio.create_task(own.run())
        await until(lambda: own.told()["failures"] == 2)
        assert own.told()["why"] == "it failed; the server's log says why"
        assert own.told()["last_success"] is None
        await ended(task)

    asyncio.run(story())


def test_end_of_the_server_ends_the_refresh(tmp_path: Path, scripted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    monkeypatch.setattr(Scripted, "program", f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)")  # fmt: skip

    async def story() -> None:
        task = asyncio.create_task(schedule(tmp_path / "data").run())
        await until(lambda: pid.exists() and pid.read_text())
        assert json.loads((tmp_path / "data" / STATE_FILE).read_text())["running"] is True
        await ended(task)

    asyncio.run(story())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"running": true}', '{"failed_sources": 3}', '{"failed_sources": [], "x": 1}']
)
def test_foreign_state_file_is_no_state(tmp_path: Path, content: str) -> None:
    (tmp_path / STATE_FILE).write_text(content)
    assert schedule(tmp_path).told() == schedule(tmp_path / "none").told()


def test_folder_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "data").write_text("a file, where the folder should be")
    own = schedule(tmp_path / "data")
    assert own._lead() is None
    assert own._lead() is None
    (told,) = [r.getMessage() for r in caplog.records]
    assert told.startswith(f"{tmp_path / 'data' / LOCK_FILE}: cannot be written")
