"""How a refresh is told: intervals, the time left, a line a round, a table in any width."""

from __future__ import annotations

import signal
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from planner.cli import watching
from planner.cli.errors import SourceUnavailable, UsageError
from planner.cli.main import main
from planner.cli.refresh_progress import duration, shown_progress
from planner.cli.refresh_table import refresh_text
from planner.cli.verbs.prices_refresh import check_identity, interval
from planner.cli.watching import state_line, watch
from pricing.aws.access import ROLE_ARN
from pricing.refresh.run import Progress

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def asked(source: str, region: str | None = "us-east-1", state: str = "read", **over: Any) -> dict[str, Any]:
    why = "throttled" if state == "failed" else None
    return {"source": source, "region": region, "state": state, "rows": 12, "excluded": {"tenancy Host": 16, "price of zero": 2}, "published": None, "why": why, "kept_as_of": None} | over  # fmt: skip


def document(*sources: dict[str, Any], **over: Any) -> dict[str, Any]:
    return {
        "snapshot_id": "0123456789abcdef",
        "previous_snapshot_id": "fedcba9876543210",
        "published": True,
        "published_at": "2026-11-30T12:00:00Z",
        "day": "2026-11-30",
        "quotes": 2745,
        "instance_types": 700,
        "complete": all(s["state"] != "failed" for s in sources),
        "sources": list(sources),
        "faults": [],
        "changes": {"new": 5, "changed": 3, "withdrawn": 1, "unchanged": 2737},
        "notices": [],
        "alerts": [],
    } | over


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("6h", 21600), ("1d", 86400), ("90s", 90), ("1.5h", 5400), (" 6H ", 21600)]
)
def test_intervals(text, seconds):
    assert interval("--watch", text) == seconds


@pytest.mark.parametrize("text", ["", "6", "h", "6 hours", "-6h", "0m", "400d", "6h30m", "nan"])
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(UsageError, match="write it as 30m, 6h or 1d"):
        interval("--watch", text)


@pytest.mark.parametrize("text", ["0.1s", "59s", "0.9m"])
def test_an_interval_of_less_than_a_minute_is_refused(text):
    with pytest.raises(UsageError, match="is too often; at least 1m"):
        interval("--watch", text)


def test_a_cloud_without_its_package_is_one_line_with_the_remedy(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setitem(sys.modules, "gpuhunt", None)  # as if it were not installed
    assert main(["prices", "refresh", "--source", "gpuhunt", "--no-store", "--format", "json"]) == 4
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("refreshing: ")]
    assert len(said) == 1
    assert said[0].endswith(": the package gpuhunt is not installed; pip install 'gpu-cost-planner[other-clouds]'")


@pytest.mark.parametrize(
    ("role", "can_be"),
    [
        ("arn:aws:iam::123456789012:role/reader", True),
        ("arn:aws-cn:iam::123456789012:role/a/path/reader", True),
        ("arn:aws-us-gov:iam::123456789012:role/r", True),
        ("reader", False),
        ("arn:aws:iam::123456789012:user/reader", False),
        ("arn:aws:iam::12345678901:role/reader", False),
        ("arn:aws:iam::123456789012:role/", False),
        ("arn:aws:iam::123456789012:role/a b", False),
    ],
)
def test_the_shape_of_a_role(role, can_be):
    assert bool(ROLE_ARN.fullmatch(role)) is can_be


def test_a_profile_that_the_sdk_has_and_one_that_it_has_not(monkeypatch, tmp_path):
    config = tmp_path / "config"
    config.write_text("[profile prices]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    check_identity("prices", None)
    with pytest.raises(UsageError, match=r"--profile: unknown profile 'price'; did you mean prices\?"):
        check_identity("price", None)
    monkeypatch.setenv("AWS_PROFILE", "price")
    check_identity("prices", None)  # the flag goes before the variable
    with pytest.raises(UsageError, match="AWS_PROFILE: unknown profile 'price'"):
        check_identity(None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (5400, "1 h 30 min"), (7500, "2 h 5 min")],
)
def test_the_time_left_reads_as_a_person_says_it(seconds, text):
    assert duration(seconds) == text


def test_the_state_of_a_round_is_one_line():
    said = document(
        asked("price_list"),
        asked("spot", state="failed"),
        asked("spot", "us-west-2", state="failed"),
        notices=[{"kind": "price_jump"}, {"kind": "note"}],
        alerts=[{"kind": "moved", "message": "p5"}, {"kind": "fault", "message": "alerts.toml: is not TOML"}],
    )
    assert state_line(said) == (
        "2026-11-30T12:00:00Z snapshot 0123456789ab published; 2,745 prices (5 new, 3 changed, 1 withdrawn); "
        "1 moved by more than 30 %; failed: spot; 1 alert; 1 fault of alerts"
    )
    said |= {"faults": [{"subject": "database", "detail": "not recorded: the snapshot: no connection"}]}
    assert "; failed: spot, database; " in state_line(said)


def test_a_snapshot_that_stays_says_so():
    assert "0123456789ab stays; " in state_line(document(published=False))


def test_the_table_adds_regions_up_and_names_what_failed():
    said = document(
        asked("price_list", published="2026-11-28"),
        asked("price_list", "us-west-2", published="2026-11-27"),
        asked("spot", state="failed"),
        asked("spot", "us-west-2", "resumed"),
        asked("spot_advisor", None),
        asked("quotas", state="failed"),
    )
    rows = {line.split()[0]: " ".join(line.split()) for line in refresh_text(said, width=120, colour=False).splitlines() if line.strip()}  # fmt: skip
    assert rows["price_list"] == "price_list read in 2 regions 24 36 2026-11-28"
    assert rows["spot"] == "spot failed in 1 of 2 regions 24 36"
    assert rows["spot_advisor"] == "spot_advisor read 12 18"
    assert rows["quotas"] == "quotas failed in 1 region 12 18"
    assert "Snapshot 0123456789ab published: 2,745 prices, 5 new, 3 changed, 1 withdrawn." in " ".join(rows.values())


@pytest.mark.parametrize("width", [32, 40, 64, 80, 200])
def test_the_table_fits_any_width(width):
    notices = [
        {"kind": "kept", "source": "spot", "subject": f"g{n}.xlarge us-east-1", "detail": f"{n} throttled; " * 12, "count": 1}
        for n in range(12)
    ]  # fmt: skip
    text = refresh_text(document(asked("price_list"), asked("spot", state="failed"), notices=notices), width=width, colour=False)  # fmt: skip
    assert max(map(len, text.splitlines())) <= width
    assert "4 more notices of this kind" in " ".join(text.split())


def kept(source: str, why: str, region: str = "us-east-1") -> dict[str, Any]:
    return {"kind": "kept", "source": source, "subject": region, "detail": f"{why}; its last good figures, of 2026-07-20 00:00 UTC, stay", "count": 1}  # fmt: skip


def lines_of(said: dict[str, Any]) -> list[str]:
    return refresh_text(said, width=400, colour=False).splitlines()


def test_sources_that_fail_for_one_reason_are_one_line_with_their_names_and_the_age_of_what_stays():
    why = "no credentials were found; set AWS_PROFILE"
    names = {"savings_plans": "2026-07-20", "spot": "2026-11-28", "quotas": None}
    said = document(
        *(asked(name, state="failed", why=why, kept_as_of=day and f"{day}T00:00:00Z") for name, day in names.items()),
        asked("offerings", state="failed", why="throttled", kept_as_of="2026-11-29T00:00:00Z"),
        notices=[*(kept(name, why) for name in names), kept("offerings", "throttled")],
    )
    assert [line.strip() for line in lines_of(said) if line.strip().startswith("kept:")] == [
        f"kept: savings_plans, spot, quotas in us-east-1: {why}; last good figures of 2026-07-20 to 2026-11-28; nothing was known before of quotas",
        "kept: offerings in us-east-1: throttled; last good figures of 2026-11-29",
    ]


def test_every_notice_names_its_source_and_long_ones_are_cut_for_people():
    jump = {"kind": "price_jump", "source": "price_list", "subject": "p5.48xlarge us-east-1 on_demand", "detail": "98.32 to 55.04 USD an hour (-44%)", "count": 1}  # fmt: skip
    gone = [{"kind": "withdrawn", "source": "price_list", "subject": f"g5.{n}xlarge us-east-1 on_demand", "detail": "the list no longer has it", "count": 1} for n in range(8)]  # fmt: skip
    long = {"kind": "note", "source": "storage", "subject": "EBS", "detail": "word " * 100, "count": 1}
    told = [line.strip() for line in lines_of(document(asked("price_list"), notices=[jump, *gone, long]))]
    assert "price jump: price_list: p5.48xlarge us-east-1 on_demand: 98.32 to 55.04 USD an hour (-44%)" in told
    (withdrawn,) = [line for line in told if line.startswith("withdrawn: ")]
    assert withdrawn.startswith("withdrawn: price_list: g5.0xlarge us-east-1 on_demand, ")
    assert withdrawn.endswith(" and 2 more: the list no longer has it")
    (note,) = [line for line in told if line.startswith("note: storage: EBS: word word")]
    assert note.endswith("word …")
    assert len(note) < 250
    assert "--format json has every notice, and each as a whole" in told
    assert "--format json" not in "\n".join(lines_of(document(asked("price_list"), notices=[jump])))


def test_what_a_stand_in_answered_is_not_told_as_kept():
    failed = asked("price_list", state="failed", why="no credentials; price_list_files was read instead")
    note = {"kind": "note", "source": "price_list", "subject": "us-east-1", "detail": "no credentials; price_list_files was read instead", "count": 1}  # fmt: skip
    told = [line.strip() for line in lines_of(document(failed, asked("price_list_files"), notices=[note]))]
    assert not [line for line in told if line.startswith("kept")]
    assert "note: price_list: us-east-1: no credentials; price_list_files was read instead" in told


def test_when_nothing_was_published_the_table_says_which_snapshot_stays():
    text = refresh_text(document(asked("spot", state="failed"), published=False), width=80, colour=False)
    assert "Nothing was published; snapshot 0123456789ab stays." in text


def test_without_a_terminal_there_is_a_line_at_the_beginning_and_the_end(capsys):
    from pricing.refresh.plan import Outcome, Unit
    from pricing.source import Source

    unit = Unit(source=Source(name="s", regional=False, needs_credentials=False, default=True, what="", read=lambda _: pytest.fail("must not be read")), region=None)  # fmt: skip
    with shown_progress() as tell:
        tell(Progress(total=2))
        tell(Progress(total=2, done=1, answers=3, rows=40, eta_s=125.0, ended=Outcome(unit=unit)))
        tell(Progress(total=2, done=2, answers=6, rows=1080, failed=1, eta_s=0.0, ended=Outcome(unit=unit)))
    assert capsys.readouterr().err.splitlines() == [
        "refreshing: 0 of 2 answers, 0 pages, 0 rows",
        "refreshing: 2 of 2 answers, 6 pages, 1,080 rows, 1 failed",
    ]


def test_a_watch_goes_on_after_what_may_pass_and_ends_at_what_will_not(monkeypatch, capsys):
    rounds = iter([SourceUnavailable("the disk is full"), document(asked("spot")), UsageError("--region: unknown")])
    waits: list[float] = []
    monkeypatch.setattr(watching.time, "sleep", waits.append)
    before = signal.getsignal(signal.SIGTERM)

    def once() -> dict[str, Any]:
        told = next(rounds)
        if isinstance(told, Exception):
            raise told
        return told

    with pytest.raises(UsageError):
        watch(once, 3600.0, "table")
    out, err = capsys.readouterr()
    assert "UTC: the disk is full" in err.splitlines()[0]
    assert out.count("\n") == 1
    assert out.startswith("2026-11-30T12:00:00Z snapshot 0123456789ab published")
    assert [round(w) for w in waits] == [3600, 3600]
    assert signal.getsignal(signal.SIGTERM) is before
