"""The glossary: one row per term in `planner/data/glossary.csv`, which the documentation page is made from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GLOSSARY = Path(__file__).parent.parent / "data" / "glossary.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term, its definition and unit, other names, related terms, and where the definition comes from."""

    term: str
    definition: str
    unit: str
    see_also: tuple[str, ...]
    source: str
    other_names: tuple[str, ...] = ()


def read_glossary(path: Path = GLOSSARY) -> tuple[Term, ...]:
    """Return every term in the order of the file, which is alphabetical."""
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(
            Term(
                term=row["term"],
                definition=row["definition"],
                unit=row["unit"],
                see_also=parts(row["see_also"]),
                source=row["source"],
                other_names=parts(row["other_names"]),
            )
            for row in csv.DictReader(lines)
        )


def parts(text: str) -> tuple[str, ...]:
    """Return the parts of a cell that holds several, separated by semicolons."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


def key(name: str) -> str:
    """Return a name as it is compared: case, blanks, hyphens and underscores aside, so that `kv_cache` finds "KV cache"."""
    return "".join(c for c in name.casefold() if c.isalnum() or c in "+/$")


def find(name: str, terms: Sequence[Term]) -> list[Term]:
    """Return the term of that name or other name, as a list of one; empty when there is none."""
    wanted = key(name)
    return [t for t in terms if wanted in {key(n) for n in (t.term, *t.other_names)}][:1]


def near(name: str, terms: Sequence[Term], most: int = 3) -> list[str]:
    """Return the terms whose name resembles a name, or that begin with it, nearest first."""
    import difflib

    spelled = {key(n): t.term for t in terms for n in (t.term, *t.other_names)}
    wanted = key(name)
    close = difflib.get_close_matches(wanted, spelled, n=most, cutoff=0.6)
    begins = [k for k in spelled if len(wanted) >= 2 and k.startswith(wanted)]
    return list(dict.fromkeys(spelled[k] for k in [*close, *begins]))[:most]


def as_markdown(terms: Sequence[Term]) -> str:
    """Return the documentation page of the glossary."""
    lines = [
        "# Glossary",
        "",
        "Every word as planner uses it. The same text: `planner glossary TERM`. Made from `planner/data/glossary.csv`; change it there.",
        "",
    ]
    for t in terms:
        lines += [f"## {t.term}", ""]
        lines += [f"*Also: {', '.join(t.other_names)}*", ""] if t.other_names else []
        lines += [t.definition, ""]
        about = [f"Unit: {t.unit}."] if t.unit else []
        about += [f"See {', '.join(f'[{name}](#{anchor(name)})' for name in t.see_also)}."] if t.see_also else []
        about += [f"Source: {t.source}."] if t.source else []
        lines += [" ".join(about), ""] if about else []
    return "\n".join(lines).rstrip() + "\n"


def anchor(heading: str) -> str:
    """Return the anchor that renderers of Markdown give a heading: lower case, blanks to hyphens, other signs left out."""
    return "".join("-" if c == " " else c for c in heading.lower() if c.isalnum() or c in " -_")


def main() -> None:
    """Write the documentation page: `python -m planner.cli.glossary > planner/docs/glossary.md`."""
    from planner.cli.output import write

    write(as_markdown(read_glossary()))


if __name__ == "__main__":
    main()
