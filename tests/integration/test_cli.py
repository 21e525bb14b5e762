"""The command line as a process, on the shipped tables: answers, formats, exit codes, and every way an output can be missing."""

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from planner import __version__
from planner.bootstrap import answer_recommendation, open_store
from planner.cli.main import main
from planner.recommend.request import RecommendRequest
from planner.reports.flat import RECOMMEND_COLUMNS
from planner.services.documents import to_json_bytes

MAIN_JOB = ("recommend", "--model", "7b", "--mode", "inference")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def planner(
    *words: str, home: Path, cwd: Path | None = None, timeout: float = 120, prefix: Sequence[str] = (), **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run one command in a clean environment; what it writes to the home folder can be looked at."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"} | env
    return subprocess.run(
        [*prefix, sys.executable, "-m", "planner", *words],
        capture_output=True,
        check=False,
        env=clean,
        cwd=cwd or home,
        timeout=timeout,
    )


def test_the_main_job_gives_a_ranked_priced_answer_and_writes_nothing(home: Path) -> None:
    done = planner(*MAIN_JOB, home=home, COLUMNS="140")
    said = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert said.startswith("Qwen2.5-7B inference\n")
    for part in ("\n 1  ", "\n10  ", "$/M", "inferences", "modelled", "Prices  snapshot", "Turned down"):
        assert part in said, part
    assert list(home.iterdir()) == []


def test_json_is_exactly_what_the_service_serialises_and_ranks_cheapest_first(home: Path) -> None:
    done = planner(*MAIN_JOB, "--format", "json", home=home)
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    rows = document["recommendations"]
    assert [r["rank"] for r in rows] == list(range(1, 11))
    costs = [float(r["cost"]["usd_per_million_inferences"]) for r in rows]
    assert costs == sorted(costs)
    expected = json.loads(to_json_bytes(answer_recommendation(RecommendRequest(model="7b"))))
    for answer in (document, expected):  # ages follow the clock, which may strike between the two
        for source in answer["prices"]["sources"]:
            source.pop("age_hours")
        for r in answer["recommendations"]:
            r["price"].pop("age_hours")
    assert document == expected


def test_two_runs_give_the_same_bytes(home: Path) -> None:
    first, second = (planner(*MAIN_JOB, "--format", "csv", home=home, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.stdout == second.stdout


def test_csv_has_the_documented_columns_and_the_figures_of_json(home: Path) -> None:
    done = planner(*MAIN_JOB, "--format", "csv", home=home)
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    document = json.loads(planner(*MAIN_JOB, "--format", "json", home=home).stdout)
    assert tuple(rows[0]) == RECOMMEND_COLUMNS
    assert len(rows) == 10
    for got, expected in zip(rows, document["recommendations"], strict=True):
        assert got["instance_type"] == expected["instance_type"]
        assert got["cost.usd_per_million_inferences"] == expected["cost"]["usd_per_million_inferences"]
        assert float(got["performance.requests_per_s"]) == pytest.approx(
            expected["performance"]["requests_per_s"], rel=1e-5
        )
        assert got["cost.usd_per_epoch"] == ""
        assert got["id"] == document["id"]


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_nothing_fits_is_exit_3_with_an_answer(form: str, home: Path) -> None:
    done = planner(
        "recommend", "--model", "70b", "--accelerator", "T4", "--max-instances", "1", "--format", form, home=home
    )
    assert done.returncode == 3
    if form == "table":
        assert b"Nothing fits" in done.stdout
        assert b"out of memory" in done.stdout
    elif form == "json":
        document = json.loads(done.stdout)
        assert document["recommendations"] == []
        assert {r["reason"] for r in document["rejections"]} >= {"out_of_memory"}
    else:
        assert done.stdout.decode().splitlines() == [",".join(RECOMMEND_COLUMNS)]
        assert done.stderr == b"planner recommend: nothing fits; --format table or json says why\n"


def test_known_prices_come_out_to_the_cent(home: Path) -> None:
    """Figures of AWS's public price list, July 2026."""
    public = {
        "p4d.24xlarge": "21.957642",
        "p5.48xlarge": "55.04",
        "g5.xlarge": "1.006",
        "g5.2xlarge": "1.212",
        "g4dn.xlarge": "0.526",
        "g6e.xlarge": "1.861",
    }
    done = planner(
        "prices",
        "list",
        "--region",
        "us-east-1",
        "--purchase",
        "on_demand",
        "--instance",
        ",".join(public),
        "--format",
        "json",
        home=home,
    )
    prices = json.loads(done.stdout)["prices"]
    assert {p["instance_type"]: float(p["effective_unit_price"]) for p in prices} == {
        k: float(v) for k, v in public.items()
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("recommend", "--model", "7bb"), "did you mean 7b"),
        (("recommend", "--model", "7b", "--mode", "inferance"), "planner recommend: --mode: 'inferance' is not one of inference, training; did you mean inference?"),
        (("recommend", "--model", "7b", "--region", "us-est-1"), "us-east-1"),
        (("recommend", "--model", "7b", "--instance", "g5.xlrge"), "g5.xlarge"),
        (("recommend", "--model", "7b", "--accelerator", "L40SS"), "L40S"),
        (("recommend", "--model", "7b", "--mode", "training"), "--dataset-tokens"),
        (("recommend", "--model", "7b", "--prices-as-of", "0123abcd"), "--prices-as-of: '0123abcd' is the name of no price snapshot here; `planner prices snapshots`"),
        (("prices", "list", "--prices-as-of", "c307"), "--prices-as-of: 'c307' must be a day, YYYY-MM-DD, or the name of a snapshot"),
        (("prices", "availability", "p5.48xlarge", "--prices-as-of", ""), "--prices-as-of: '' must be a day"),
        (("recommend", "--model", "7b", "--prices-as-of", "2001-01-01"), "--prices-as-of: '2001-01-01' is before the oldest price snapshot"),
        (("prices", "list", "--limit", "0"), "planner prices list: --limit: 0 must be at least 1"),
        (("prices", "list", "--purchase", "spott"), "did you mean spot"),
        (("instances", "--accelerator", "H1000"), "H100"),
        (("models", "show", "7bb"), "did you mean 7b"),
        (("estimate", "--model", "7b"), "--instance: give exactly one of instance and accelerator"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(words: tuple[str, ...], said: str, home: Path) -> None:
    done = planner(*words, home=home)
    error = done.stderr.decode()
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b"[]",
        b'"text"',
        b"{",
        b"{}",
        b"\xff\xfe\x00",
        b'{"model_type": "frobnicator"}',
        b"[" * 20_000,
        b'{"model_type": "llama", "hidden_size": "big"}',
        b"null",
        b"",
    ],
)
def test_a_config_that_cannot_be_used_is_one_line_and_exit_2(content: bytes, home: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    done = planner("recommend", "--model", str(tmp_path / "config.json"), home=home)
    error = done.stderr.decode()
    assert (done.returncode, done.stdout) == (2, b""), error
    assert error.startswith("planner recommend: ")
    assert error.count("\n") == 1


def test_a_path_that_is_not_there_a_folder_and_a_device_are_one_line(home: Path, tmp_path: Path) -> None:
    for path in (str(tmp_path / "none.json"), str(tmp_path), "/dev/null"):
        done = planner("models", "show", path, home=home)
        assert done.returncode == 2
        assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_config_without_read_permission_is_one_line(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    path.chmod(0)
    done = planner("models", "show", str(path), home=home)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_saving_prints_the_id_and_keeps_the_answer(home: Path, tmp_path: Path) -> None:
    from planner.store import SqlStore

    data = tmp_path / "data"
    first, again = (
        planner(*MAIN_JOB, "--format", "json", "--save", home=home, PLANNER_DATA_DIR=str(data)) for _ in range(2)
    )
    document = json.loads(first.stdout)
    assert (first.returncode, first.stderr.decode()) == (0, f"saved as {document['id']}\n")
    assert again.stderr == first.stderr
    with SqlStore(f"sqlite:///{data / 'planner.sqlite'}") as store:
        assert store.get(document["id"]) == document
    assert list(home.iterdir()) == []
    assert [p.name for p in data.iterdir()] == ["planner.sqlite"]


def test_a_database_that_is_not_there_is_exit_4_after_the_answer(home: Path) -> None:
    done = planner(
        *MAIN_JOB,
        "--format",
        "json",
        "--save",
        home=home,
        PLANNER_DATABASE_URL="postgresql://someone:hunter2@127.0.0.1:9/x",
    )
    assert done.returncode == 4
    assert json.loads(done.stdout)["recommendations"]
    assert done.stderr.count(b"\n") == 1
    assert b"hunter2" not in done.stderr


def test_database_commands(home: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.sqlite'}"
    before = planner("db", "current", "--database-url", url, "--format", "json", home=home)
    assert json.loads(before.stdout) | {"expected_revision": ""} == {
        "database": url,
        "revision": None,
        "expected_revision": "",
        "current": False,
    }
    assert not (tmp_path / "x.sqlite").exists()
    assert planner("db", "upgrade", "--database-url", url, home=home).returncode == 0
    after = json.loads(planner("db", "current", "--database-url", url, "--format", "json", home=home).stdout)
    assert after["current"] is True
    assert after["revision"] == after["expected_revision"]


def test_doctor_finds_everything_well_and_writes_nothing(home: Path) -> None:
    done = planner("doctor", "--format", "json", home=home)
    document = json.loads(done.stdout)
    assert (done.returncode, document["well"]) == (0, True)
    assert {c["name"] for c in document["checks"]} >= {
        "planner",
        "python",
        "packages",
        "data directory",
        "price snapshot",
        "database",
    }
    assert list(home.iterdir()) == []


def test_doctor_names_a_fault_and_is_exit_1(home: Path) -> None:
    done = planner(
        "doctor", home=home, COLUMNS="160", PLANNER_DATABASE_URL="postgresql://someone:hunter2@127.0.0.1:9/x"
    )
    assert done.returncode == 1
    assert b"fault  database" in done.stdout
    assert b"hunter2" not in done.stdout


def test_a_damaged_snapshot_is_exit_4(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "snapshots"
    folder.mkdir(parents=True)
    (folder / "2027-01-01-0123456789abcdef.sqlite").write_bytes(b"not a snapshot")
    done = planner(*MAIN_JOB, home=home, PLANNER_DATA_DIR=str(tmp_path / "data"))
    assert done.returncode == 4
    assert b"2027-01-01-0123456789abcdef.sqlite" in done.stderr
    assert done.stderr.count(b"\n") == 1


WIDE_AND_NARROW = (
    MAIN_JOB,
    ("explain", *MAIN_JOB[1:]),
    ("recommend", "--model", "resnet50", "--mode", "training", "--dataset-size", "1281167", "--epochs", "90"),
    ("recommend", "--model", "70b", "--accelerator", "T4"),
    ("estimate", "--model", "7b", "--instance", "g5.xlarge"),
    ("prices", "list", "--instance", "g5.xlarge"),
    ("prices", "history", "p5.48xlarge", "--region", "us-east-1"),
    ("prices", "history", "p5.48xlarge", "--purchase", "spot"),
    ("prices", "diff", "shipped", "latest"),
    ("prices", "snapshots"),
    ("prices", "availability", "p5.48xlarge"),
    ("instances", "--accelerator", "L40S"),
    ("models", "list"),
    ("models", "show", "7b"),
    ("glossary",),
    ("doctor",),
)


@pytest.mark.parametrize("words", WIDE_AND_NARROW, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "none"))
    for width in (32, 40, 60, 70, 80, 100, 120, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(list(words)) in {0, 3}
        assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= width


@pytest.mark.parametrize("env", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}])  # fmt: skip
def test_every_locale_and_encoding_gets_the_answer(env: dict[str, str], home: Path) -> None:
    done = planner(*MAIN_JOB, home=home, **env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"$/M" in done.stdout
    if env.get("PYTHONIOENCODING") == "ascii":
        done.stdout.decode("ascii")


def test_errors_too_survive_an_ascii_terminal(home: Path) -> None:
    done = planner("recommend", "--model", "sieben-milliarden-größer", home=home, PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def shell(command: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", command.replace("planner", f"{sys.executable} -m planner")],
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        cwd=home,
        timeout=120,
    )


def test_a_reader_that_closes_early_is_silent(home: Path) -> None:
    done = shell("planner glossary --format csv | head -c 10; exit ${PIPESTATUS[0]}", home)
    assert done.stderr == b""
    assert done.returncode in {0, 141}  # 0 where the pipe took all of it before the reader left
    done = shell("planner recommend --model 7b --format json | true; exit ${PIPESTATUS[0]}", home)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_closed_or_full_output_is_exit_1_and_one_line(home: Path) -> None:
    for command in (
        "planner recommend --model 7b >&-",
        "planner recommend --model 7b >/dev/full",
        "planner recommend --model 7b --format json >/dev/full",
    ):
        done = shell(command, home)
        assert done.returncode == 1, command
        assert done.stderr.count(b"\n") == 1, done.stderr


def test_a_closed_error_output_does_not_hide_the_exit_code(home: Path) -> None:
    assert shell("planner recommend --model 7bb 2>&-", home).returncode == 2


def on_a_terminal(words: Sequence[str], home: Path, columns: int, **env: str) -> tuple[int, str]:
    """Run a command with a terminal of `columns` for its output; return its exit code and what it showed."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "planner", *words], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, cwd=home, env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm-256color"} | env)  # fmt: skip
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return process.wait(60), seen.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_its_own_width(home: Path) -> None:
    import re

    code, seen = on_a_terminal(MAIN_JOB, home, 76)
    assert code == 0
    assert "\x1b[" in seen
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in seen.splitlines()) <= 76
    code, seen = on_a_terminal(MAIN_JOB, home, 76, NO_COLOR="1")
    assert code == 0
    assert "\x1b[" not in seen


def test_ctrl_c_is_130_without_a_traceback(home: Path) -> None:
    """Sent while the server runs, which is when a person sends it."""
    process = subprocess.Popen([sys.executable, "-c", "import planner.cli.main as m, time\nm.run = lambda _: time.sleep(60)\nraise SystemExit(m.main(['doctor']))"], stderr=subprocess.PIPE, cwd=home)  # fmt: skip
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, b"")


def test_names_with_control_signs_or_bytes_that_are_no_text_do_no_harm(home: Path, tmp_path: Path) -> None:
    done = planner("recommend", "--model", "7b\x1b[31m\x07\n", home=home)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"\x1b" not in done.stderr
    clean = {"PATH": os.environ["PATH"], "HOME": str(home)}
    raw = subprocess.run(
        [sys.executable.encode(), b"-m", b"planner", b"recommend", b"--model", b"\xff.json"],
        capture_output=True,
        check=False,
        env=clean,
        timeout=60,
    )
    assert (raw.returncode, raw.stderr.count(b"\n")) == (2, 1)
    long = planner("recommend", "--model", "x" * 100_000, home=home)
    assert long.returncode == 2
    assert len(long.stderr) < 2000


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        # 7,615,616,512 x 2 / 2^30 = 14.185; 28 layers x 4 KV heads x 128 x 2 (K and V) x 2 bytes = 57,344
        (("models", "show", "7b"), ["7,615,616,512", "14.19 GiB", "57,344 bytes", "131,072 tokens"]),
        # 8,030,261,248 x 2 / 2^30 = 14.958; an A10G shows 22.0 GiB, 0.9 of it are 19.8
        (("estimate", "--model", "8b", "--instance", "g5.xlarge"), ["weights  ", "14.96", "total", "19.80", "USD per hour", "1.006", "734.38"]),
        (("prices", "list", "--instance", "p4d.24xlarge", "--region", "us-east-1"), ["on-demand", "21.96", "use1-az", "spot"]),
        (("instances", "--instance", "g6f.xlarge,p5.48xlarge"), ["0.125 \N{MULTIPLICATION SIGN} L4", "8 \N{MULTIPLICATION SIGN} H100 SXM5 80GB", "192", "2,048"]),
        (("models", "list"), ["Qwen2.5-7B", "7b", "7.62 billion", "Mixtral-8x7B", "ResNet-50"]),
        (("doctor",), [f"version {__version__}", "All of it works."]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_tables_show_figures_worked_out_by_hand(
    words: tuple[str, ...],
    parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "none"))
    assert main(list(words)) == 0
    said = capsys.readouterr().out
    assert [part for part in parts if part not in said] == []


def test_a_saved_answer_has_its_prices_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))
    assert main(["recommend", "--model", "7b", "--top", "1", "--format", "json", "--save"]) == 0
    saved = json.loads(capsys.readouterr().out)
    with open_store() as store:
        (meta,) = store.snapshots()
        assert meta.snapshot_id == saved["prices"]["snapshot_id"]
        assert len(store.quotes(meta.snapshot_id)) == meta.quote_count
        assert store.get(saved["id"]) == saved


def test_an_estimate_shows_what_each_part_of_memory_is_at_any_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in ("70", "80", "120"):
        monkeypatch.setenv("COLUMNS", width)
        assert main(["estimate", "--model", "7b", "--instance", "g5.12xlarge"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "0.9 of what a process can see" in said
        assert "left out at this width: \n" not in said


def test_an_estimate_that_cannot_be_says_what_kind_of_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--model", "8b", "--accelerator", "H100", "--count", "8", "--tensor-parallel", "3"]) == 3
    said = capsys.readouterr().out
    assert "not possible." in said
    assert "32 attention heads do not divide by 3" in said
    assert main(["estimate", "--model", "8b", "--instance", "g4dn.xlarge"]) == 3
    assert "does not fit." in capsys.readouterr().out


def test_an_unknown_architecture_is_one_line_of_readable_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "zorp", "hidden_size": 64}), encoding="utf-8")
    assert main(["models", "show", str(path)]) == 2
    said = capsys.readouterr().err
    assert "model_type: is 'zorp'" in said
    assert "such as llama" in said
    assert len(said) < 300 + len(str(path))
