"""Alerts to files and webhooks: told once, kept when they cannot be told, and never in the way of a snapshot."""

import json
import os
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from planner.services.send_alerts import _document, alerts_after
from pricing.alerts import Alert, Baseline
from pricing.model import PurchaseOption
from pricing.snapshot import open_snapshot, write_snapshot
from pricing.static import load_tables

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WATCH = '[[watch]]\nname = "P5"\nmore_than = 5\ninstance_type = "p5.48xlarge"\nregion = "us-east-1"\npurchase_option = "on_demand"\n'


class Hook:
    """A receiver on this machine that answers as it is told to and keeps what it was sent."""

    def __init__(self) -> None:
        self.status, self.wait, self.got = 204, threading.Event(), []
        self.wait.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((self.path, dict(self.headers), json.loads(body)))
                hook.wait.wait(5)
                self.send_response(hook.status)
                if 300 <= hook.status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def close(self) -> None:
        self.wait.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def hook():
    receiver = Hook()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    """Catalogs in which p5.48xlarge on demand in us-east-1 costs so much."""
    folder = tmp_path_factory.mktemp("snapshots")
    tables = load_tables()
    few = [q for q in tables.quotes if q.instance_type in {"p5.48xlarge", "p4d.24xlarge"}]
    opened = {}
    for number, price in enumerate(("98.32", "55.04", "56", "60")):
        quotes = [
            replace(q, effective_unit_price=Decimal(price), list_unit_price=Decimal(price))
            if (q.instance_type, q.region, q.purchase_option) == ("p5.48xlarge", "us-east-1", PurchaseOption.ON_DEMAND)
            else q
            for q in few
        ]
        path = folder / f"{price}.sqlite"
        contents = replace(tables, quotes=tuple(quotes), interruptions=(), price_periods=())
        write_snapshot(path, contents, published_at=NOW + timedelta(hours=number), origin="refresh")
        opened[price] = open_snapshot(path)
    yield opened
    for catalog in opened.values():
        catalog.close()


@pytest.fixture
def tell(tmp_path, snapshots):
    def told(before: str, after: str, watches: str | None = None):
        if watches is not None:
            (tmp_path / "alerts.toml").write_text(watches, encoding="utf-8")
        return alerts_after(
            snapshots[before],
            snapshots[after],
            watches_file=tmp_path / "alerts.toml",
            state_file=tmp_path / "state.json",
            now=NOW,
        )

    return told


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_move_is_a_line_in_the_file_and_told_once(tell, tmp_path):
    (tmp_path / "told").mkdir()
    watches = WATCH + '[[file]]\npath = "told/alerts.jsonl"\n'
    (alert,) = tell("98.32", "55.04", watches)
    assert (alert["old_unit_price"], alert["new_unit_price"]) == ("98.32", "55.04")
    assert alert["change_fraction"] == pytest.approx(-0.4402, abs=1e-4)
    assert (
        alert["message"]
        == "P5: p5.48xlarge us-east-1 on-demand: 98.32 to 55.04 USD per hour (-44.0 %) since 2026-07-20 00:00 UTC"
    )
    assert alert["deliveries"] == [{"sink": "file told/alerts.jsonl", "delivered": True, "why": None}]
    (line,) = lines(tmp_path / "told" / "alerts.jsonl")
    assert line == {k: v for k, v in alert.items() if k != "deliveries"}
    assert tell("98.32", "55.04") == []
    assert tell("55.04", "56") == []
    assert len(lines(tmp_path / "told" / "alerts.jsonl")) == 1


def test_a_creeping_price_is_told_against_the_last_alert(tell):
    """55.04 to 56 is 1.7 %, 56 to 60 is 7.1 %; 55.04 to 60 is 9.0 %."""
    tell("98.32", "55.04", WATCH)
    assert tell("55.04", "56") == []
    (alert,) = tell("56", "60")
    assert (alert["old_unit_price"], alert["new_unit_price"]) == ("55.04", "60")


def test_a_webhook_gets_json_with_the_secret_header(tell, hook, monkeypatch):
    monkeypatch.setenv("ALERT_TOKEN", "Bearer s3cret")
    (alert,) = tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\nsecret_env = "ALERT_TOKEN"\n')
    ((path, headers, body),) = hook.got
    assert path == "/hook"
    assert headers["Authorization"] == "Bearer s3cret"
    assert headers["Content-Type"] == "application/json"
    assert body["text"] == alert["message"]
    assert body["alerts"] == [{k: v for k, v in alert.items() if k != "deliveries"}]
    assert "s3cret" not in json.dumps(alert)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (500, "it answered HTTP 500"),
        (401, "it answered HTTP 401"),
        (302, "it answered with a redirect, which is not followed"),
        (307, "it answered with a redirect, which is not followed"),
    ],
)
def test_what_was_not_taken_is_kept_and_told_at_the_next_refresh(tell, hook, status, why):
    hook.status = status
    alert, fault = tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\n')
    assert alert["deliveries"][0]["delivered"] is False
    assert fault["kind"] == "fault"
    assert fault["message"].endswith(f": {why}; 1 alert kept for the next refresh")
    assert len(hook.got) == 1
    hook.status = 200
    assert tell("55.04", "55.04") == []
    assert [body["alerts"][0]["id"] for _, _, body in hook.got] == [alert["id"]] * 2
    assert tell("55.04", "55.04") == []
    assert len(hook.got) == 2


def test_what_is_owed_goes_out_with_what_is_new(tell, hook):
    hook.status = 503
    tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\n')
    hook.status = 200
    tell("55.04", "60")
    assert [a["new_unit_price"] for a in hook.got[-1][2]["alerts"]] == ["55.04", "60"]


def test_one_sink_that_fails_holds_back_no_other(tell, hook, tmp_path):
    hook.status = 500
    tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\n[[file]]\npath = "a.jsonl"\n')
    tell("55.04", "55.04")
    assert len(lines(tmp_path / "a.jsonl")) == 1


def test_a_slow_receiver_is_given_up(tell, hook):
    hook.wait.clear()
    _, fault = tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\ntimeout_s = 0.3\n')
    assert "no answer within 0.3 s; 1 alert kept" in fault["message"]


def test_nobody_there_is_one_line(tell, hook):
    hook.close()
    _, fault = tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\n')
    assert "no connection" in fault["message"]
    assert "\n" not in fault["message"]
    hook.__init__()  # type: ignore[misc]  # for the fixture to close


def test_a_secret_that_is_not_set_sends_nothing(tell, hook, monkeypatch):
    monkeypatch.delenv("ALERT_TOKEN", raising=False)
    _, fault = tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\nsecret_env = "ALERT_TOKEN"\n')
    assert "the environment variable ALERT_TOKEN is not set; 1 alert kept" in fault["message"]
    assert hook.got == []


def test_without_watches_there_is_nothing_to_tell(tell, tmp_path):
    assert tell("98.32", "55.04") == []
    assert not (tmp_path / "state.json").exists()


def test_watches_that_cannot_be_read_are_said_and_not_raised(tell):
    (fault,) = tell("98.32", "55.04", "[[watch]]\nname = 5")
    assert fault["kind"] == "fault"
    assert fault["message"].startswith("no alert was made: ")
    assert "alerts.toml: watch 1: name must be a text on one line, not 5" in fault["message"]


@pytest.mark.parametrize(
    ("watches", "why"),
    [
        (WATCH + '[[webhook]]\nurl = "http://127.0.0.1:1/"\ntimeout_s = nan', "timeout_s must be above 0 and at most 60"),
        (WATCH + '[[file]]\npath = "~nobody-of-this-name/alerts"', "file ~nobody-of-this-name/alerts: cannot be written: "),
        (WATCH + '[[file]]\npath = "' + "a" * 5000 + '"', "cannot be written: File name too long"),
        (WATCH + '[[webhook]]\nurl = "https://' + "a" * 70 + '..example/"', "is no address; 1 alert kept"),
        ("a = " + "[" * 5000, "is not TOML"),
    ],
)  # fmt: skip
def test_odd_watches_are_a_fault_and_never_raise(tell, watches, why):
    *_, fault = tell("98.32", "55.04", watches)
    assert fault["kind"] == "fault"
    assert why in fault["message"]
    assert "\n" not in fault["message"]


def test_a_commitment_is_told_with_its_terms_and_few_decimals(snapshots, tmp_path):
    """20.7 and 41.4 an hour, an upfront of 6,000 over 8,760 h among them: 21.384931506849… is told with six decimals."""
    reserved = replace(
        next(q for q in snapshots["56"].quotes() if q.instance_type == "p5.48xlarge"),
        purchase_option=PurchaseOption.RESERVED_1YR,
        payment_option="partial_upfront",
        offering_class="standard",
        plan_type=None,
        region="us-east-1",
        effective_unit_price=Decimal("41.4"),
    )
    base = Baseline(
        unit_price=Decimal("20.7") + Decimal(6000) / 8760,
        currency="USD",
        unit=reserved.unit,
        at=datetime(2026, 11, 29, 8, 30, tzinfo=timezone(timedelta(hours=2))),
    )
    document = _document(Alert(watch="w", quote=reserved, baseline=base, change_fraction=Decimal("0.936")), "s", NOW)
    assert (
        document["message"]
        == "w: p5.48xlarge us-east-1 reserved 1yr, partial upfront, standard: 21.384932 to 41.4 USD per hour (+93.6 %) since 2026-11-29 06:30 UTC"
    )
    assert document["old_unit_price"] == "21.384931506849"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("pipe", "cannot be written: is a named pipe, which may never end; give a plain file; 1 alert kept"),
        ("device", "cannot be written: is a device, which may never end; give a plain file; 1 alert kept"),
        ("folder", "cannot be written: is a folder; give a plain file; 1 alert kept"),
        ("loop", f"cannot be written: {os.strerror(40)}; 1 alert kept"),
        ("none/here", "cannot be written: there is no folder "),
    ],
)
def test_a_sink_that_is_no_plain_file_is_a_fault_at_once(tell, tmp_path, kind, why):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    *_, fault = tell("98.32", "55.04", WATCH + f'[[file]]\npath = "{kind}"')
    assert why in fault["message"]
    assert not (tmp_path / "none").exists()


def test_a_pipe_with_a_reader_is_none_the_better(tell, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        *_, fault = tell("98.32", "55.04", WATCH + '[[file]]\npath = "pipe"')
        assert "is a named pipe" in fault["message"]
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)


@pytest.mark.parametrize("name", ["alerts.toml", "state.json"])
def test_a_pipe_in_the_place_of_a_file_of_ours_is_a_fault_at_once(tell, tmp_path, name):
    if name == "state.json":
        (tmp_path / "alerts.toml").write_text(WATCH, encoding="utf-8")
    os.mkfifo(tmp_path / name)
    assert any("cannot be read" in a["message"] and "named pipe" in a["message"] for a in tell("98.32", "55.04"))


def test_the_path_of_a_hook_is_never_told(tell):
    *_, fault = tell("98.32", "55.04", WATCH + '[[webhook]]\nurl = "http://127.0.0.1:1/services/s3cret"')
    assert fault["message"].startswith("webhook http://127.0.0.1:1 (")
    assert "s3cret" not in json.dumps(fault)


def test_whatever_goes_wrong_with_alerts_is_one_line(tell, tmp_path, monkeypatch):
    def breaks(path):
        raise ZeroDivisionError("a bug\nof ours")

    monkeypatch.setattr("planner.services.send_alerts.read_watches", breaks)
    (fault,) = tell("98.32", "55.04", WATCH)
    assert fault == {
        "kind": "fault",
        "message": f"no alert was made: {tmp_path / 'alerts.toml'}: ZeroDivisionError: a bug of ours",
        "path": str(tmp_path / "alerts.toml"),
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 9}', '{"version": 1, "baselines": [{}], "waiting": {}}'])
def test_a_record_that_cannot_be_read_is_begun_anew(tell, tmp_path, text):
    (tmp_path / "state.json").write_text(text, encoding="utf-8")
    alert, fault = tell("98.32", "55.04", WATCH)
    assert alert["kind"] == "moved"
    assert "begun anew" in fault["message"]
    assert tell("55.04", "55.04") == []


def test_without_a_record_nothing_is_told_as_it_would_be_told_for_ever(tell, tmp_path, hook):
    (tmp_path / "state.json").mkdir()
    found = tell("98.32", "55.04", WATCH + f'[[webhook]]\nurl = "{hook.url}"\n')
    assert "cannot be written, nothing was told" in found[-1]["message"]
    assert hook.got == []


def test_the_record_is_replaced_in_one_step(tell, tmp_path):
    tell("98.32", "55.04", WATCH)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alerts.toml", "state.json"]
    said = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert [row["unit_price"] for row in said["baselines"]] == ["55.04"]
    assert said["waiting"] == {}


def test_a_watch_that_selects_no_price_is_a_fault_each_time_and_the_others_are_told(snapshots, tmp_path):
    file = tmp_path / "alerts.toml"
    file.write_text(WATCH + '[[watch]]\nname = "typo"\nmore_than = 5\nregion = "us-eest-1"\n')
    state = tmp_path / "state.json"
    for moves in (1, 0):
        told = alerts_after(snapshots["98.32"], snapshots["55.04"], watches_file=file, state_file=state, now=NOW)
        assert [a["watch"] for a in told if a["kind"] == "moved"] == ["P5"] * moves
        (fault,) = [a for a in told if a["kind"] == "fault"]
        assert fault["message"].startswith(f"{file}: watch 'typo' selects no price of this snapshot: no price has the region 'us-eest-1'; did you mean us-west-1 or us-east-1?")  # fmt: skip
        assert fault["path"] == str(file)
