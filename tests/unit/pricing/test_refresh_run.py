"""Units asked at once: each fails alone, the order of the plan is kept, progress adds up, an interruption keeps what was read."""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from refreshing import NOW, ask, source

from pricing.errors import AccessDenied, CredentialsMissing, ReplyError, SourceFailed, UnknownName
from pricing.refresh.errors import NotWritable
from pricing.refresh.plan import Outcome, chosen, planned
from pricing.refresh.run import Progress, read_all
from pricing.refresh.staging import Staging
from pricing.source import Source

REGIONS = ("us-east-1", "us-west-2", "eu-central-1")


def run(tmp_path: Path, *sources: Source, regions: tuple[str, ...] = REGIONS, **over) -> tuple[Outcome, ...]:
    given = {"stand_ins": {}, "newer_than": None, "workers": 4} | over
    staging = Staging(folder=tmp_path / "staging", access="")
    return read_all(planned(sources, regions), lambda unit: ask(unit.region), staging=staging, **given)


def fail(error: Exception):
    def raise_it(_: object) -> None:
        raise error

    return raise_it


def test_the_plan_is_source_by_source_and_region_by_region():
    units = planned(
        [source("price_list"), source("spot_advisor", regional=False)], ["us-east-1", "us-west-2", "us-east-1"]
    )
    assert [u.name for u in units] == ["price_list us-east-1", "price_list us-west-2", "spot_advisor"]


def test_sources_are_the_default_ones_or_those_named():
    known = [source("price_list"), source("spot"), source("placement_scores", default=False)]
    assert [s.name for s in chosen(known, [])] == ["price_list", "spot"]
    assert [s.name for s in chosen(known, ["placement_scores", "price_list"])] == ["price_list", "placement_scores"]
    with pytest.raises(UnknownName, match="unknown source 'spt'; did you mean spot"):
        chosen(known, ["spt"])


def test_outcomes_come_in_the_order_of_the_plan_whatever_ended_first(tmp_path):
    chance = random.Random(3)
    waits = {name: chance.random() / 20 for name in REGIONS}
    slow = [source(name, before=lambda a: time.sleep(waits[a.region])) for name in ("one", "two", "three")]
    outcomes = run(tmp_path, *slow, workers=8)
    assert [o.unit.name for o in outcomes] == [f"{name} {region}" for name in ("one", "two", "three") for region in REGIONS]  # fmt: skip
    assert all(o.reading is not None and o.reading.scope.region == o.unit.region for o in outcomes)


def test_several_units_are_asked_at_once_and_never_more_than_workers(tmp_path):
    running, most, lock = set(), [0], threading.Lock()

    def busy(question) -> None:
        with lock:
            running.add(question.region)
            most[0] = max(most[0], len(running))
        time.sleep(0.05)
        with lock:
            running.discard(question.region)

    run(tmp_path, source(before=busy), regions=tuple(f"r{n}" for n in range(9)), workers=3)
    assert most[0] == 3


def test_one_failure_loses_no_other_answer(tmp_path):
    wrong = source("spot", before=fail(SourceFailed(source="spot", why="throttled", remedy="try again later")))
    outcomes = run(tmp_path, source(), wrong)
    assert [o.failure is None for o in outcomes] == [True] * 3 + [False] * 3
    assert str(outcomes[3].failure) == "spot: throttled; try again later"


def test_what_a_source_should_not_raise_is_its_failure_too(tmp_path):
    odd = source("odd", before=fail(KeyError("Gpus")))
    reply = source("reply", before=fail(ReplyError(source="EC2", where="row 3", why="has no name")))
    outcomes = run(tmp_path, odd, reply, regions=("us-east-1",))
    assert "KeyError: 'Gpus' (a fault of planner: please report it)" in str(outcomes[0].failure)
    assert "EC2: row 3: has no name" in str(outcomes[1].failure)


def test_a_stand_in_is_asked_where_credentials_or_a_permission_are_missing(tmp_path):
    def denied(question) -> None:
        if question.region == "us-west-2":
            raise AccessDenied(source="price list", permission="pricing:GetProducts", why="denied")
        if question.region == "eu-central-1":
            raise SourceFailed(source="price list", why="no whole answer")

    asked: list[str | None] = []
    files = source("price_list_files", needs_credentials=False, default=False, asked=asked)
    outcomes = run(tmp_path, source(before=denied), stand_ins={"price_list": files})
    assert asked == ["us-west-2"]
    assert [(o.unit.name, o.failure is None) for o in outcomes] == [
        ("price_list us-east-1", True),
        ("price_list us-west-2", False),
        ("price_list_files us-west-2", True),
        ("price_list eu-central-1", False),
    ]


def test_without_credentials_nothing_that_needs_them_is_asked(tmp_path):
    asked: list[str | None] = []
    missing = CredentialsMissing(source="AWS", why="no credentials were found", remedy="set AWS_PROFILE")
    files = source("price_list_files", needs_credentials=False, default=False)
    advisor = source("spot_advisor", regional=False, needs_credentials=False)
    outcomes = run(tmp_path, source(asked=asked), advisor, regions=("us-east-1",), no_credentials=missing, stand_ins={"price_list": files})  # fmt: skip
    assert asked == []
    assert [(o.unit.name, o.failure) for o in outcomes] == [
        ("price_list us-east-1", missing),
        ("price_list_files us-east-1", None),
        ("spot_advisor", None),
    ]


def test_progress_adds_up_and_tells_what_is_left(tmp_path):
    told: list[Progress] = []
    wrong = source("spot", before=fail(SourceFailed(source="spot", why="throttled")))
    run(tmp_path, source(prices={"a": "1", "b": "2"}), wrong, progress=told.append, workers=1)
    assert (told[0].total, told[0].done, told[0].eta_s) == (6, 0, None)
    last = told[-1]
    assert (last.total, last.done, last.failed, last.answers, last.rows) == (6, 6, 3, 3, 6)
    assert last.eta_s == 0
    assert [t.done for t in told] == sorted(t.done for t in told)


def test_the_time_left_is_the_rest_at_the_rate_so_far(tmp_path):
    told: list[Progress] = []
    ticks = iter(range(1000))
    run(tmp_path, source(), progress=told.append, workers=1, clock=lambda: float(next(ticks)))
    first = next(t for t in told if t.done == 1)
    assert first.eta_s == pytest.approx(2 * first.elapsed_s, rel=0.5)  # one of three is done


def test_an_ended_refresh_goes_on_where_it_was(tmp_path):
    asked: list[str | None] = []

    def ends(question) -> None:
        if question.region == "eu-central-1":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, source(asked=asked, before=ends), workers=1)
    assert asked == list(REGIONS)
    asked.clear()
    outcomes = run(tmp_path, source(asked=asked), workers=1)
    assert asked == ["eu-central-1"]
    assert [o.resumed for o in outcomes] == [True, True, False]


def test_a_failure_is_not_kept_and_is_asked_again(tmp_path):
    run(tmp_path, source(before=fail(SourceFailed(source="price_list", why="throttled"))))
    asked: list[str | None] = []
    assert all(o.failure is None and not o.resumed for o in run(tmp_path, source(asked=asked)))
    assert sorted(map(str, asked)) == sorted(REGIONS)


def test_an_interruption_stops_workers_at_their_next_answer(tmp_path):
    went_on = threading.Event()
    stopped = threading.Event()

    def long(question) -> None:
        if question.region == "us-east-1":
            went_on.wait(5)
            raise KeyboardInterrupt
        went_on.set()
        deadline = time.monotonic() + 5
        try:
            while time.monotonic() < deadline:
                question.on_answer()
                time.sleep(0.005)
        finally:
            if time.monotonic() < deadline:
                stopped.set()

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, source(before=long), regions=("us-east-1", "us-west-2"), workers=2)
    assert stopped.wait(4)


def test_a_disk_that_is_full_ends_the_refresh_with_its_line(tmp_path):
    (tmp_path / "staging").write_text("in the way")
    with pytest.raises(NotWritable, match="staging"):
        run(tmp_path, source())


def test_old_readings_are_asked_for_again(tmp_path):
    run(tmp_path, source())
    staging = Staging(folder=tmp_path / "staging", access="")
    later = read_all(
        planned([source()], REGIONS),
        lambda unit: ask(unit.region, at=NOW + timedelta(hours=7)),
        staging=staging,
        newer_than=None,
        stand_ins={},
    )
    assert [o.resumed for o in later] == [False] * 3
