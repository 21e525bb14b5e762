"""Verbs, exit codes and the one line of an error, in process."""

import pytest

from planner import __version__
from planner.cli import parser
from planner.cli.errors import EXIT_MEANINGS, CommandError, Exit, translated
from planner.cli.main import command_name, main
from planner.models.errors import ConfigError, UnknownModel
from planner.recommend.errors import BadRequest
from pricing.errors import SnapshotError, UnknownName


def test_help_lists_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {verb} " in said for verb in parser.VERBS)
    assert all(f"{int(code)} {meaning}" in said for code, meaning in EXIT_MEANINGS.items())


@pytest.mark.parametrize("verb", parser.VERBS)
def test_every_command_has_help_with_each_of_its_flags(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--help"]) == 0
    said = capsys.readouterr().out
    flags, _ = parser.parser_for(verb)
    assert all(flag in said for flag in parser.known_flags(flags))
    assert ("--format" in said) == parser.VERBS[verb].answers


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"planner {__version__}\n"


def test_no_command_shows_the_help_and_is_a_bad_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recomend", "--model", "7b"], "planner: unknown command 'recomend'; did you mean recommend?"),
        (["zzz"], "planner: unknown command 'zzz'; `planner --help` lists them"),
        (["models"], "planner: models: say what to do: `planner models list`, `planner models show`"),
        (["models", "lst"], "planner: models: unknown command 'lst'; did you mean list?"),
        (["--model", "7b"], "planner: unknown flag --model; flags come after the command, for example `planner recommend --model 7b`"),
        (["models", "show"], "planner models show: MODEL is missing"),
        (["recommend"], "planner recommend: --model: give exactly one of model and params; for example --model 7b or --params 6.7e9"),
        (["recommend", "--model", "7b", "--utilisation", "2"], "planner recommend: --utilisation: 2 must be at most 1"),
        (["explain", "--model", "7b", "--rank", "0"], "planner explain: --rank: 0 must be at least 1"),
        (["serve", "--port", "70000"], "planner serve: --port: 70000 is not a port; 1 to 65535"),
        (["serve", "--workers", "0"], "planner serve: --workers: 0 must be 1 to 256"),
        (["models", "show", "--model", "7b"], "planner models show: unknown flag --model; MODEL is given without a flag"),
        (["recommend", "--model", "7b", "--save=yes"], "planner recommend: --save: takes no value"),
        (["recommend", "--model", "resnet50", "--max-tpot-ms", "5"], "planner recommend: --max-tpot-ms: 5 applies to models that generate tokens; ResNet-50 has whole-sample latency: use --max-e2e-ms"),
        (["db", "current", "--database-url", ""], "planner db current: --database-url: needs a value; sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"),
        (["serve", "--database-url", " "], "planner serve: --database-url: needs a value; sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"),
        (["glossary", "TTFTT"], "planner glossary: no term 'TTFTT' in the glossary; did you mean TTFT?"),
    ],
)  # fmt: skip
def test_a_bad_request_is_one_line_and_exit_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", said + "\n")


@pytest.mark.parametrize("verb", ["prices list", "instances"])
@pytest.mark.parametrize("value", ["", " ", ",", " , "])
def test_an_empty_filter_is_refused_and_never_means_everything(
    verb: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags, _ = parser.parser_for(verb)
    filters = [a.option_strings[0] for a in flags._actions if a.metavar == "TEXT"]
    assert filters
    for flag in filters:
        assert main([*verb.split(), flag, value]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == (
            "",
            f"planner {verb}: {flag}: needs a value; without the flag nothing is filtered by it\n",
        )


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BadRequest(field="max_ttft_ms", value=-1.0, why="must be more than 0 ms"), 2, "--max-ttft-ms: -1 must be more than 0 ms"),
        (UnknownModel("7bb", ("7b",)), 2, "unknown model '7bb'; did you mean 7b?"),
        (ConfigError(source="c.json", field="hidden_size", why="is missing"), 2, "c.json: hidden_size: is missing"),
        (UnknownName("region", "us-est-1", ("us-east-1",)), 2, "--region: unknown region 'us-est-1'; did you mean us-east-1?"),
        (SnapshotError("x.sqlite: damaged"), 4, "x.sqlite: damaged"),
        (FileNotFoundError(2, "No such file or directory", "x.json"), 2, "x.json: No such file or directory"),
    ],
)  # fmt: skip
def test_each_domain_error_has_its_exit_code(error: Exception, code: int, said: str) -> None:
    found = translated(error)
    assert found is not None
    assert (found.code, str(found)) == (code, said)


def test_an_unavailable_database_is_exit_4() -> None:
    from planner.store.errors import BadDatabaseUrl, StoreUnavailable

    unavailable, bad = (
        translated(StoreUnavailable(where="sqlite:///x", why="locked")),
        translated(BadDatabaseUrl("give sqlite:///FILE")),
    )
    assert unavailable is not None
    assert bad is not None
    assert unavailable.code == Exit.SOURCE_UNAVAILABLE
    assert bad.code == Exit.BAD_REQUEST


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: list[str]) -> int:
        raise ZeroDivisionError

    assert translated(ZeroDivisionError()) is None
    monkeypatch.setattr("planner.cli.main.run", broken)
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])


def test_ctrl_c_is_130_and_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.cli.main.run", interrupted)
    assert main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_error_of_several_lines_is_said_on_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: list[str]) -> int:
        raise CommandError("first\n  second\n")

    monkeypatch.setattr("planner.cli.main.run", refused)
    assert main(["prices", "list"]) == 2
    assert capsys.readouterr().err == "planner prices list: first second\n"


def test_the_command_is_named_as_far_as_it_was_understood() -> None:
    assert [command_name(w) for w in (["models", "show", "x"], ["doctor"], ["models", "x"], [])] == [
        "planner models show",
        "planner doctor",
        "planner",
        "planner",
    ]


@pytest.mark.parametrize("words", [["help", "models", "show"], ["models", "show", "--help"], ["models", "show", "-h"]])
def test_help_may_come_before_or_after_the_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("usage: planner models show MODEL [flags]")


@pytest.mark.parametrize("words", [["help", "models"], ["models", "--help"]])
def test_help_of_a_group_lists_its_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "models list" in said
    assert "recommend" not in said
