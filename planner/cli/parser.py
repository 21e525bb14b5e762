"""The verbs and the argument parser of each. Only the module of the verb that was asked for is imported."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn, Protocol

from planner.cli.errors import UsageError

FORMATS = ("table", "json", "csv")


@dataclass(frozen=True, slots=True)
class Verb:
    """One command: the module that runs it and what it does, in a line."""

    module: str
    summary: str
    answers: bool = True  # whether it prints an answer, in a format to choose


VERBS: Mapping[str, Verb] = {
    "recommend": Verb("recommend", "rank instances for a model: sized, priced, explained"),
    "estimate": Verb("estimate", "memory, throughput and latency of one layout on one instance"),
    "explain": Verb("explain", "every figure of a recommendation down to its quote or formula"),
    "validate": Verb("validate", "how far the model is off measurements: yours, or the shipped ones left out in turn"),
    "prices refresh": Verb("prices_refresh", "ask the live sources and publish the next price snapshot"),
    "prices list": Verb("prices_list", "prices of a snapshot, by region, instance and purchase option"),
    "prices history": Verb("prices_history", "which prices of an instance type were seen when, with a chart"),
    "prices diff": Verb("prices_diff", "what changed from one price snapshot to another"),
    "prices snapshots": Verb("prices_snapshots", "which price snapshots are kept here"),
    "prices availability": Verb("prices_availability", "zones, spot, capacity blocks and quotas of a type in a region"),
    "prices import": Verb("prices_import", "take a price sheet or a private agreement into the prices, or out again"),
    "prices billed": Verb(
        "prices_billed", "what was billed: the lines of an export or of Cost Explorer, one cost summed"
    ),
    "instances": Verb("instances", "instance types and their accelerators"),
    "models list": Verb("models_list", "the models that are known by name, and their aliases"),
    "models show": Verb("models_show", "parameters, weight bytes and KV bytes per token of one model"),
    "glossary": Verb("glossary", "what a term of the trade means"),
    "serve": Verb("serve", "run the REST API", answers=False),
    "db upgrade": Verb("db_upgrade", "bring the database to the newest schema"),
    "db current": Verb("db_current", "say which schema the database has"),
    "doctor": Verb("doctor", "say what is installed, where data lives, and whether all of it works"),
}


GROUPS = tuple(dict.fromkeys(verb.split()[0] for verb in VERBS if " " in verb))


class VerbModule(Protocol):
    """What the module of a verb provides."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Describe the flags of the verb."""

    def run(self, args: argparse.Namespace) -> int:
        """Answer, and return the exit code."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are `UsageError`s in our own words."""

    def error(self, message: str) -> NoReturn:
        """Raise the complaint; `argument --top: expected one argument` reads `--top: needs a value`."""
        message = message.removeprefix("argument ").replace("expected one argument", "needs a value")
        if ": ignored explicit argument" in message:
            message = message.split(": ignored", 1)[0] + ": takes no value"
        if message.startswith("the following arguments are required: "):
            message = message.removeprefix("the following arguments are required: ") + " is missing"
        raise UsageError(message)


def load(verb: str) -> VerbModule:
    """Import and return the module of a verb."""
    module: VerbModule = import_module(f"planner.cli.verbs.{VERBS[verb].module}")
    return module


def parser_for(verb: str) -> tuple[Parser, VerbModule]:
    """Return the parser of a verb, its flags filled in, and its module."""
    module = load(verb)
    parser = Parser(
        prog=f"planner {verb}",
        description=VERBS[verb].summary[0].upper() + VERBS[verb].summary[1:] + ".",
        formatter_class=argparse.HelpFormatter,
        allow_abbrev=False,
    )
    module.add_flags(parser)
    words = "".join(f" {action.metavar}" for action in parser._actions if not action.option_strings)
    parser.usage = f"planner {verb}{words} [flags]"
    if not VERBS[verb].answers:
        return parser, module
    rendering = parser.add_argument_group("rendering")
    rendering.add_argument(
        "--format",
        type=str.lower,
        default="table",
        metavar="|".join(FORMATS),
        help="how to print the answer (default table)",
    )
    return parser, module


def parse(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed flags of a verb; an unknown flag or word is refused with the nearest known one."""
    args, unknown = parser.parse_known_args(list(argv))
    if unknown:
        raise UsageError(complaint(unknown, known_flags(parser), places(parser)))
    if getattr(args, "format", FORMATS[0]) not in FORMATS:
        raise UsageError(f"--format: {args.format!r} is not one of {', '.join(FORMATS)}{hint(args.format, FORMATS)}")
    return args


def places(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Return the words that a command takes without a flag, such as MODEL."""
    return tuple(str(action.metavar or action.dest) for action in parser._actions if not action.option_strings)


def complaint(unknown: Sequence[str], known: Sequence[str], places: Sequence[str] = ()) -> str:
    """Return one line about words that the parser could not place."""
    flags = [word for word in unknown if word.startswith("-")]
    if not flags:
        return f"unexpected {unknown[0]!r}; values belong to flags, for example --model 7b"
    name = flags[0].split("=")[0]
    if name.lstrip("-").upper() in places:
        return f"unknown flag {name}; {name.lstrip('-').upper()} is given without a flag"
    return f"unknown flag {name}{hint(name, known)}"


def known_flags(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Return the long flags of a parser."""
    return tuple(s for action in parser._actions for s in action.option_strings if s.startswith("--"))


def hint(word: str, known: Sequence[str]) -> str:
    """Return "; did you mean X?" for a near miss, else nothing."""
    import difflib

    near = difflib.get_close_matches(word.lower(), known, n=2, cutoff=0.6)
    close = [k for k in near if difflib.SequenceMatcher(None, word.lower(), k).ratio() > 0.8] or near[:1]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def check_text(words: Sequence[str]) -> None:
    """Raise where a word is not text: the answer repeats it, and JSON has only text."""
    for word in words:
        if not word.isascii() and any("\ud800" <= c <= "\udfff" for c in word):
            raise UsageError(f"{word!r} is not text in UTF-8")


def verb_in(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the verb that a command line begins with, and the words after it."""
    first, rest = argv[0], list(argv[1:])
    if first.startswith("-"):
        raise UsageError(
            f"unknown flag {first.split('=')[0]}; flags come after the command, for example `planner recommend --model 7b`"
        )
    if first in VERBS:
        return first, rest
    second = [verb.split()[1] for verb in VERBS if verb.startswith(f"{first} ")]
    if not second:
        words = sorted({verb.split()[0] for verb in VERBS})
        raise UsageError(f"unknown command {first!r}{hint(first, words) or '; `planner --help` lists them'}")
    if not rest or rest[0].startswith("-"):
        raise UsageError(f"{first}: say what to do: {', '.join(f'`planner {first} {word}`' for word in second)}")
    if rest[0] not in second:
        raise UsageError(
            f"{first}: unknown command {rest[0]!r}{hint(rest[0], second) or '; known: ' + ', '.join(second)}"
        )
    return f"{first} {rest[0]}", rest[1:]


def general_help(prefix: str = "") -> str:
    """Return the help of `planner --help`, or of a group such as `planner models --help`."""
    from planner.cli.errors import EXIT_MEANINGS

    lines = [f"usage: planner {prefix + ' ' if prefix else ''}COMMAND [flags]", ""]
    if not prefix:
        lines += ["Which cloud GPU instance, how many, in what layout, at what cost.", ""]
    lines += ["commands:"]
    shown = {verb: what for verb, what in VERBS.items() if not prefix or verb.startswith(f"{prefix} ")}
    widest = max(len(verb) for verb in shown)
    lines += [f"  {verb:<{widest}}  {what.summary}" for verb, what in shown.items()]
    lines += [
        "",
        "`planner COMMAND --help` shows the flags of a command; every command that answers has --format table|json|csv.",
    ]
    if not prefix:
        lines += [
            "",
            "  planner recommend --model 7b --mode inference",
            "  planner recommend --model resnet50 --mode training --dataset-size 1281167 --epochs 90",
        ]
        lines += ["", "exit codes:"] + [f"  {int(code):>3} {meaning}" for code, meaning in EXIT_MEANINGS.items()]
        lines += [
            "",
            "options:",
            "  --help        this text, or that of a command",
            "  --version     the version of planner",
        ]
    return "\n".join(lines) + "\n"
