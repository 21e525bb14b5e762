"""`python -m workers`, and the packed worker: describe this machine, run a job, pack the worker into one file.

Exit status: 0 done, 2 a bad command or document, 3 measured but not valid (the document says why), 4 torch, the device or a file is not there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from workers import __version__
from workers.documents import to_plain, write_whole
from workers.errors import DocumentError, WorkerError
from workers.model import SCHEMA_VERSION, Job, Suite


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.command(arguments)
    except DocumentError as e:
        return _fail(str(e), 2)
    except WorkerError as e:
        return _fail(str(e), 4)
    except OSError as e:
        return _fail(f"{e.filename or 'input or output'}: {e.strerror or e}", 4)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing was written", 130)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="workers", description="Measures what a machine really does and writes one self-describing document."
    )
    parser.add_argument("--version", action="version", version=f"workers {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    describe = commands.add_parser("describe", help="print this machine, and an example of a job, as JSON")
    describe.set_defaults(command=_describe)
    run = commands.add_parser("run", help="run a job and write its measurement")
    run.add_argument("job", metavar="JOB.json", help="the job; - reads it from standard input")
    run.add_argument("--out", metavar="FILE", type=Path, help="where the measurement goes; default: standard output")
    run.set_defaults(command=_run)
    packing = commands.add_parser("pack", help="write this worker as one executable file")
    packing.add_argument("out", metavar="OUT.pyz", type=Path)
    packing.set_defaults(command=_pack)
    return parser


def _describe(_: argparse.Namespace) -> int:
    from workers.environment import describe  # noqa: PLC0415 - torch takes seconds to import, only on this path

    plain = {
        "environment": to_plain(describe()),
        "suites": [suite.value for suite in Suite],
        "schema_version": SCHEMA_VERSION,
        "example_job": to_plain(Job(name="device figures of this machine")),
    }
    sys.stdout.write(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    text = sys.stdin.buffer.read() if arguments.job == "-" else Path(arguments.job).read_bytes()
    job = Job.parse(text, source="standard input" if arguments.job == "-" else arguments.job)
    if arguments.out is not None and not arguments.out.parent.is_dir():
        return _fail(
            f"--out {arguments.out}: no folder {arguments.out.parent}", 2
        )  # said before hours of work, not after
    from workers.bench import run_job  # noqa: PLC0415 - benchmarks are loaded when one runs

    measurement = run_job(job, _say)
    document = measurement.to_json()
    if arguments.out is None:
        sys.stdout.write(document)
    else:
        write_whole(arguments.out, document)
        _say(f"wrote {arguments.out}")
    if not measurement.validity.valid:
        _say(
            f"measured, but not valid: {len(measurement.validity.reasons)} reasons in validity.reasons, the first: {measurement.validity.reasons[0]}"
        )
    return 0 if measurement.validity.valid else 3


def _pack(arguments: argparse.Namespace) -> int:
    from workers.pack import pack  # noqa: PLC0415 - zip is needed here alone

    _say(f"wrote {pack(arguments.out)}")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _fail(message: str, status: int) -> int:
    _say(f"error: {message}")
    return status


if __name__ == "__main__":
    sys.exit(main())
