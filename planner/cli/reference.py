"""The documentation page of the command line, made from the parsers themselves: `python -m planner.cli.reference > planner/docs/cli.md`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from planner.cli.errors import EXIT_MEANINGS
from planner.cli.import_table import CHANGE_COLUMNS
from planner.cli.parser import VERBS, parser_for
from planner.cli.validate_table import RECALIBRATION_COLUMNS, REGRET_COLUMNS
from planner.cli.verbs.prices_diff import DIFF_COLUMNS
from planner.cli.verbs.prices_history import HISTORY_COLUMNS
from planner.reports import flat
from planner.services.list_billed import FIELDS as BILLED_FIELDS
from planner.services.list_rates import RATE_FIELDS
from planner.services.list_snapshots import SNAPSHOT_FIELDS
from planner.services.show_availability import ZONE_FIELDS

INTRODUCTION = """# Command line

`planner COMMAND [flags]`. `planner --help` lists the commands, `planner COMMAND --help` the flags of one, `planner --version` the version.
Without a command it prints the list of commands and exits with 2.
This page is made from the program (`python -m planner.cli.reference`), so it cannot lag behind.

```
planner recommend --model 7b --mode inference
planner recommend --model ./config.json --mode training --dataset-tokens 1e9 --epochs 3 --method lora
planner recommend --model resnet50 --mode training --dataset-size 1281167 --epochs 90
planner estimate --model 8b --instance g5.xlarge
planner explain --model 7b --rank 2
planner validate --measurements measured.csv --out rows.csv
planner prices refresh --region us-east-1
planner prices history p5.48xlarge --region us-east-1
planner prices diff shipped latest --min-change 5%
```

## What every command does alike

- **Formats.** `--format table` (default) is for people; `--format json` is exactly the body that the REST API gives to the same request;
  `--format csv` has one row per recommendation, price, type, model, term, change or check. The columns below are stable: new ones are only added at the end.
- **Answers go to standard output, everything else to standard error.** An error is one line: command, flag, value, why, what would be right.
- **Numbers** may be written as `1000`, `1_000`, `1.5` or `50e6`; days as `YYYY-MM-DD`. A repeatable flag may be given several times or
  with commas: `--region us-east-1,us-west-2`. Flags are not abbreviated; a misspelt one is refused with the nearest.
- **Width and colour.** A table takes the terminal's width, else `COLUMNS`, else 120 columns. Where it does not fit, the least important
  columns are left out and named; below 64 columns each row becomes a card. Colour only where the output is a terminal, never with
  `NO_COLOR`; it means something: green for the best and the measured, yellow for what to be careful about, red for what is wrong.
  `FORCE_COLOR` keeps it in a pipe. Signs that the output's encoding lacks become plain ones.
- **Offline.** No command but `prices refresh`, `prices billed --from-aws`, `serve` and those that are given a database elsewhere opens a network
  connection. Nothing is written unless `--save`, `prices refresh`, `prices import`, `db upgrade` or `serve` ask for it, and then only in the data
  directory (`PLANNER_DATA_DIR`, else the system's usual place) or in the database named by `--database-url` or `PLANNER_DATABASE_URL`.
- **Asking AWS.** `prices refresh` takes credentials from where the AWS CLI does: `AWS_PROFILE`, `AWS_ACCESS_KEY_ID` with `AWS_SECRET_ACCESS_KEY`, a
  sign-on, an attached role. `AWS_ENDPOINT_URL` sends every question elsewhere; `PLANNER_AWS_PRICE_LIST_URL` and `PLANNER_AWS_SPOT_ADVISOR_URL` name
  a mirror of the public files. What needs no credentials is read without any.
- **Spreadsheets.** A CSV cell that a spreadsheet would take for a formula begins with an apostrophe. Lists are joined by ` | `, what does not
  apply is empty, never 0.

## Reading the table of `recommend`

`bf16 2×TP4, 64 each`: arithmetic in bf16, two replicas per instance, each on 4 GPUs (tensor parallel degree 4) with up to 64 requests in
flight. Memory is required of available GiB of one accelerator. The second line of a throughput or cost is its p10–p90 range. `!` marks
a stale price. Letters in brackets refer to the notes under the table. Figures have three significant digits; JSON and CSV have six.
"""  # noqa: RUF001 - quotes the table, whose signs are typographic

CSV_TABLES: Sequence[tuple[str, tuple[str, ...]]] = (
    ("recommend", flat.RECOMMEND_COLUMNS),
    ("estimate", flat.ESTIMATE_COLUMNS),
    ("estimate --scaling", flat.SCALING_COLUMNS),
    ("explain", flat.TERM_COLUMNS),
    ("validate", flat.VALIDATION_COLUMNS),
    ("validate --recalibrate", RECALIBRATION_COLUMNS),
    ("validate --regret", REGRET_COLUMNS),
    ("prices refresh", flat.REFRESH_COLUMNS),
    ("prices list", flat.PRICE_COLUMNS),
    ("prices list --storage", RATE_FIELDS),
    ("prices import", CHANGE_COLUMNS),
    ("prices history", HISTORY_COLUMNS),
    ("prices diff", DIFF_COLUMNS),
    ("prices snapshots", SNAPSHOT_FIELDS),
    ("prices availability", ZONE_FIELDS),
    ("prices billed", BILLED_FIELDS),
    ("instances", flat.INSTANCE_COLUMNS),
    ("models list", flat.MODEL_LIST_COLUMNS),
    ("models show", flat.MODEL_COLUMNS),
    ("glossary", flat.GLOSSARY_COLUMNS),
    ("db upgrade and db current", flat.SCHEMA_COLUMNS),
    ("doctor", flat.CHECK_COLUMNS),
)


def page() -> str:
    """Return the whole page."""
    lines = [INTRODUCTION, "## Exit codes", "", "| code | meaning |", "| ---: | --- |"]
    lines += [f"| {int(code)} | {meaning.replace('|', chr(92) + '|')} |" for code, meaning in EXIT_MEANINGS.items()]
    lines += ["", "## Commands", ""]
    for verb, what in VERBS.items():
        lines += [f"### planner {verb}", "", f"{what.summary[0].upper()}{what.summary[1:]}.", "", *flag_table(verb), ""]
    lines += [
        "## Columns of `--format csv`",
        "",
        "A column's name is the dotted path of its figure in the JSON answer.",
        "",
    ]
    for verb, columns in CSV_TABLES:
        lines += [f"**{verb}**: " + ", ".join(f"`{column}`" for column in columns), ""]
    return "\n".join(lines).rstrip() + "\n"


def flag_table(verb: str) -> list[str]:
    """Return the flags of a command as a table."""
    parser, _ = parser_for(verb)
    return ["| flag | meaning |", "| --- | --- |", *(row(action) for action in actions(parser))]


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield what a parser takes, `--help` left out: every command has it."""
    for action in parser._actions:
        if action.dest != "help":
            yield action


def row(action: argparse.Action) -> str:
    """Return one line of a flag table."""
    name = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    value = "" if action.nargs == 0 or not action.option_strings else f" {action.metavar or action.dest.upper()}"
    text = (action.help or "").replace("%%", "%")
    return f"| `{name}{value}` | {text} |".replace("table|json|csv", r"table\|json\|csv")


def main() -> None:
    """Write the page to standard output."""
    from planner.cli.output import write

    write(page())


if __name__ == "__main__":
    main()
