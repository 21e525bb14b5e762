"""Which numbers of machines a scaling table compares: a range of powers of two, or a list."""

from __future__ import annotations

from planner.recommend.errors import BadRequest

MOST, LONGEST = 65536, 32
EXPECTED = "write a range such as 1..64 (powers of two) or a list such as 1,2,4,8"


def scaling_counts(text: str) -> tuple[int, ...]:
    """Return the numbers of "1..64" (1, 2, 4 … 64; ends that are no power of two are kept) or of "1,2,6", ascending.

    Raises
    ------
    BadRequest
        What is no number from 1 to 65,536, a range that falls, or more than 32 numbers.
    """
    low, dots, high = text.partition("..")
    if dots:
        first, last = _count(text, low), _count(text, high)
        if last < first:
            raise BadRequest(field="scaling", value=text, why="is a range that falls", expected=EXPECTED)
        powers = (1 << k for k in range(first.bit_length() - 1, last.bit_length()))
        return tuple(sorted({first, last, *(n for n in powers if first < n < last)}))
    counts = tuple(sorted({_count(text, part) for part in text.split(",")}))
    if len(counts) > LONGEST:
        raise BadRequest(field="scaling", value=f"{len(counts)} numbers", why=f"is longer than {LONGEST}")
    return counts


def _count(text: str, part: str) -> int:
    word = part.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= 6 and 1 <= int(word) <= MOST):
        raise BadRequest(field="scaling", value=text, why=f"needs whole numbers from 1 to {MOST:,}", expected=EXPECTED)
    return int(word)
