"""Which numbers of machines a scaling table compares: a range of powers of two, or a list."""

from __future__ import annotations

from planner.recommend.errors import BadRequest

MOST, LONGEST = 65536, 32
MOST_INSTANCES = 4096
"""Most instances of one training, in a scaling table as elsewhere."""
USUAL_DEVICES = 8
"""Accelerators of a machine where many are compared and nobody says."""
EXPECTED = "write a range such as 1..64 (powers of two) or a list such as 1,2,4,8"


def scaling_counts(text: str, most: int = MOST) -> tuple[int, ...]:
    """Return the numbers of "1..64" (1, 2, 4 … 64; ends that are no power of two are kept) or of "1,2,6", ascending.

    Raises
    ------
    BadRequest
        What is no number from 1 to `most`, a range that falls, or more than 32 numbers.
    """
    low, dots, high = text.partition("..")
    if dots:
        first, last = _count(text, low, most), _count(text, high, most)
        if last < first:
            raise BadRequest(field="scaling", value=text, why="is a range that falls", expected=EXPECTED)
        powers = (1 << k for k in range(first.bit_length() - 1, last.bit_length()))
        return tuple(sorted({first, last, *(n for n in powers if first < n < last)}))
    counts = tuple(sorted({_count(text, part, most) for part in text.split(",")}))
    if len(counts) > LONGEST:
        raise BadRequest(field="scaling", value=f"{len(counts)} numbers", why=f"is longer than {LONGEST}")
    return counts


def most_of(*, accelerators: bool, devices: int | None) -> int:
    """Return the largest number that a table may have: instances, or accelerators that fill as many machines of so many devices."""
    return min(MOST, MOST_INSTANCES * (devices or USUAL_DEVICES)) if accelerators else MOST_INSTANCES


def _count(text: str, part: str, most: int) -> int:
    word = part.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= 6 and 1 <= int(word) <= most):
        raise BadRequest(field="scaling", value=text, why=f"needs whole numbers from 1 to {most:,}", expected=EXPECTED)
    return int(word)
