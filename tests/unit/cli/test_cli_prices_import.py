"""`planner prices import` from the outside: exit codes, one error line, every fault in the output."""

import csv
import io
import json
import os

import pytest

from planner.cli.main import main
from planner.cli.verbs.prices_import import summary

HEADER = "provider,instance_type,region,purchase_option,unit_price,quoted_on"
ROW = "aws,p5.48xlarge,cellar,on_demand,40,2026-01-02"


@pytest.fixture
def planner(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))

    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def sheet(tmp_path):
    def write(*lines: str, name: str = "acme.csv"):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


def test_import_list_remove(planner, sheet):
    code, out, err = planner("prices", "import", sheet(HEADER, ROW))
    assert (code, err) == (0, "")
    assert out.startswith("price sheet acme imported: 1 price new, 0 changed, 0 withdrawn\n")
    code, out, _ = planner("prices", "list", "--region", "cellar", "--format", "csv")
    assert [row["effective_unit_price"] for row in csv.DictReader(io.StringIO(out))] == ["40"]
    code, out, _ = planner("prices", "import", "--remove", "acme")
    assert (code, out.splitlines()[0]) == (0, "price sheet acme removed: 0 prices new, 0 changed, 1 withdrawn")
    code, _, err = planner("prices", "list", "--region", "cellar")
    assert code == 2
    assert "unknown region 'cellar'" in err


def test_json_and_csv_say_what_changed(planner, sheet):
    code, out, _ = planner(
        "prices", "import", sheet(HEADER, ROW), "--name", "acme inc", "--dry-run", "--format", "json"
    )
    answer = json.loads(out)
    assert (code, answer["name"], answer["published"], answer["dry_run"]) == (0, "acme inc", False, True)
    code, out, _ = planner("prices", "import", sheet(HEADER, ROW), "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["change"], row["instance_type"], row["old_unit_price"], row["new_unit_price"]) == (
        "new",
        "p5.48xlarge",
        "",
        "40",
    )


def test_a_refused_sheet_is_one_error_line_and_every_fault_in_the_output(planner, sheet, tmp_path):
    path = sheet(HEADER, ROW.replace("40", "x"), ROW, ROW.replace("cellar", "").replace("40", "0"))
    code, out, err = planner("prices", "import", path)
    assert code == 2
    assert out.splitlines() == [
        "line 2: unit_price: must be a number, not 'x'",
        "line 4: region: must not be empty",
        "line 4: unit_price: must be above zero where nothing is paid upfront",
    ]
    assert (
        err
        == f"planner prices import: {path}: nothing was imported: 3 faults, on lines 2 and 4; each stands in the output\n"
    )
    code, out, _ = planner("prices", "import", path, "--format", "json")
    assert (code, len(json.loads(out)["faults"])) == (2, 3)
    assert not (tmp_path / "data" / "snapshots").exists()


def test_a_lone_fault_stands_on_the_error_line(planner, sheet):
    code, out, err = planner("prices", "import", sheet(HEADER, ROW.replace("40", "x")))
    assert (code, out) == (2, "")
    assert err.endswith("nothing was imported: line 2: unit_price: must be a number, not 'x'\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what to import: give FILE.csv or FILE.toml, --remove NAME or --template"),
        (("a.csv", "--template"), "FILE and --template do not go together"),
        (("no-such.csv",), "no-such.csv: No such file or directory"),
        (("--remove", "acme"), "unknown price sheet or agreement 'acme'"),
    ],
)
def test_words_that_cannot_be_right(planner, words, said):
    code, out, err = planner("prices", "import", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("flag", [("prices", "import"), ("prices", "billed"), ("prices", "refresh", "--alerts"), ("prices", "refresh", "--discounts")])  # fmt: skip
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("pipe", "is a named pipe, which may never end; give a plain file"),
        ("zero", "is a device, which may never end; give a plain file"),
        ("loop", os.strerror(40)),
        ("folder", "is a folder; give a plain file"),
        ("none", "No such file or directory"),
        ("latin", "UTF-8"),
    ],
)
def test_what_is_no_plain_file_of_text_is_refused_at_once(planner, tmp_path, flag, kind, why):
    ending = "toml" if flag[1] == "refresh" else "csv"
    paths = {name: tmp_path / f"{name}.{ending}" for name in ("pipe", "zero", "loop", "folder", "none", "latin")}
    os.mkfifo(paths["pipe"])
    paths["zero"].symlink_to("/dev/zero")
    paths["loop"].symlink_to(paths["loop"].name)
    paths["folder"].mkdir()
    paths["latin"].write_bytes("name\nM\u00fcnchen\n".encode("latin-1"))
    code, out, err = planner(*flag, str(paths[kind]))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert paths[kind].name in err
    assert why in err
    assert "codec" not in err


def test_thousands_of_faults_are_one_short_line(planner, sheet):
    code, out, err = planner("prices", "import", sheet(HEADER, *[ROW.replace("40", "x")] * 5000))
    assert code == 2
    assert out.count("\n") == 5000
    assert err.endswith(
        ": nothing was imported: 5,000 faults, on lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21 and 4,980 more; each stands in the output\n"
    )


@pytest.mark.parametrize("price", ["1e999", "1e30", "1e-300", "2_490", "\uff12.49", "inf", "9" * 5000])
def test_a_price_beyond_all_is_refused_and_nothing_is_published(planner, sheet, tmp_path, price):
    code, _, err = planner("prices", "import", sheet(HEADER, ROW.replace(",40,", f",{price},")))
    assert code == 2
    assert err.count("\n") == 1
    assert len(err) < 400
    assert "line 2: unit_price: must be " in err
    assert not list(tmp_path.rglob("*.sqlite"))


def test_the_template_can_be_imported_as_it_is(planner, sheet):
    code, out, _ = planner("prices", "import", "--template")
    assert code == 0
    code, out, _ = planner("prices", "import", sheet(out.rstrip("\n")))
    assert (code, out.splitlines()[0]) == (0, "price sheet acme imported: 3 prices new, 0 changed, 0 withdrawn")


def test_faults_of_many_lines_are_summed_up():
    assert summary(("line 3: a", "line 3: b", "line 12: c", "line 4: d")) == (
        "4 faults, on lines 3, 4 and 12; each stands in the output"
    )
    assert summary(("line 3: a", "line 3: b")) == "2 faults, on line 3; each stands in the output"
    assert summary(("it holds no price",)) == "it holds no price"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "watches.toml: No such file or directory"),
        ("[[watch]]", "watches.toml: watch 1: name must be a text on one line, and is missing"),
    ],
)
def test_watches_that_cannot_be_read_are_refused_before_a_refresh_begins(planner, tmp_path, text, said):
    path = tmp_path / "watches.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    code, out, err = planner("prices", "refresh", "--alerts", path)
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "data").exists()
