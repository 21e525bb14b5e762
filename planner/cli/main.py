"""`main`: the one door of the command line. Every ending is an exit code and at most one line of standard error."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from planner.cli.errors import Exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and words[:1] != ["serve"]:
        hurry()
    try:
        return answered(words)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        from planner.cli.output import discard_stdout

        discard_stdout()
        return Exit.PIPE_CLOSED


def hurry() -> None:
    """Spare a process that gives one answer and ends what only long-lived ones need: garbage collection, BLAS threads."""
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def answered(words: list[str]) -> int:
    """Run one command; a domain error becomes one line of standard error and its exit code, a bug keeps its traceback."""
    try:
        return run(words)
    except BrokenPipeError:
        raise
    except Exception as e:
        from planner.cli.errors import translated
        from planner.cli.output import complain

        error = translated(e)
        if error is None:
            raise
        complain(f"{command_name(words)}: {error}")
        return error.code


def run(words: list[str]) -> int:
    """Find the verb, import its module alone, parse its flags and run it."""
    from planner.cli import parser
    from planner.cli.output import write

    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if not words or words[0] in {"-h", "--help", "help"}:
        write(parser.general_help())
        return Exit.ANSWER if words else Exit.BAD_REQUEST
    if words[0] in {"-V", "--version"}:
        from planner import __version__

        write(f"planner {__version__}\n")
        return Exit.ANSWER
    if words[0] in parser.GROUPS and any(w in {"-h", "--help"} for w in words[1:2]):
        write(parser.general_help(words[0]))
        return Exit.ANSWER
    parser.check_text(words)
    verb, rest = parser.verb_in(words)
    flags, module = parser.parser_for(verb)
    if "-h" in rest or "--help" in rest:
        write(flags.format_help())
        return Exit.ANSWER
    return module.run(parser.parse(flags, rest))


def command_name(words: Sequence[str]) -> str:
    """Return what begins an error line: "planner recommend", or "planner" where no verb was understood."""
    from planner.cli.parser import VERBS

    for count in (2, 1):
        if " ".join(words[:count]) in VERBS:
            return "planner " + " ".join(words[:count])
    return "planner"
