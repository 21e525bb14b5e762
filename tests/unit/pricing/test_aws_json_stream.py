"""JSON read value by value must be what the standard library reads at once, wherever the parts of the file end."""

from __future__ import annotations

import io
import json
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.aws import json_stream
from pricing.aws.json_stream import values_of
from pricing.errors import ReplyError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXTS | st.just('] } , : \\ " é 😀')
DOCUMENTS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=25)  # fmt: skip


def read(text: str | bytes, *, depth: int = 1, chunk: int = 7) -> list[tuple[json_stream.Path, Any]]:
    data = text.encode() if isinstance(text, str) else text
    return list(values_of(io.BytesIO(data), lambda path: len(path) < depth, source="test", chunk=chunk))


def leaves(value: Any, depth: int, path: json_stream.Path = ()) -> list[tuple[json_stream.Path, Any]]:
    """Return what must be yielded: containers above `depth` taken apart."""
    if depth == 0 or not isinstance(value, (dict, list)):
        return [(path, value)]
    members = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for key, inner in members for leaf in leaves(inner, depth - 1, (*path, key))]


@given(DOCUMENTS, st.integers(0, 4), st.integers(1, 40), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_any_document_in_parts_of_any_size(document: Any, depth: int, chunk: int, indent: Any, ascii_only: bool) -> None:  # fmt: skip
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert read(f" \r\n{text}\n", depth=depth, chunk=chunk) == leaves(document, depth)


def test_numbers_that_the_end_of_a_part_cuts_are_whole() -> None:
    for chunk in range(1, 20):
        assert read("[12345.625, -7e2, 0]", chunk=chunk) == [((0,), Decimal("12345.625")), ((1,), -700), ((2,), 0)]
        assert read("12345.625", chunk=chunk) == [((), Decimal("12345.625"))]


def test_a_mark_of_byte_order_is_no_part_of_the_text() -> None:
    assert read(b"\xef\xbb\xbf[1]") == [((0,), 1)]


WRONG = {
    "": "ends before it is complete",
    "   ": "ends before it is complete",
    "<html>": "no JSON",
    '{"a": 1': "ends before it is complete",
    '{"a": 1,': "ends before it is complete",
    '{"a": "te': "cut or is no JSON",
    '{"a": {"b": 1': "cut or is no JSON",
    '{"a" 1}': "':' must follow a key",
    "{1: 2}": "a key must stand here",
    '{"a": 1 "b": 2}': "',' or '}' must follow a value",
    "[1 2]": "',' or ']' must follow a value",
    "[1,]": "cut or is no JSON",
    '{"a": 1,}': "a key must stand here",
    '{"a": 1} {': "something follows the end",
    "[tru]": "cut or is no JSON",
    "[1.2.3]": "must follow a value",
}


@pytest.mark.parametrize(("text", "why"), WRONG.items())
@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_what_is_no_whole_document_is_an_error_with_its_place(text: str, why: str, chunk: int) -> None:
    with pytest.raises(ReplyError, match=f"test: character [0-9]+: .*{why}"):
        read(text, chunk=chunk)


def test_the_place_is_counted_from_the_start_of_the_file() -> None:
    text = "[" + "1, " * 100 + "?]"
    with pytest.raises(ReplyError, match="character 302:"):
        read(text, chunk=16)


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(ReplyError, match="not text in UTF-8"):
        read(b'["\xff\xfe"]')


def test_a_value_without_an_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "LARGEST_VALUE", 1000)
    for endless in ('["' + "x" * 100_000, "[" + "1" * 100_000, '[{"a": ' * 10_000):
        file = io.BytesIO(endless.encode())
        with pytest.raises(ReplyError, match=r"more than 1,000 characters|without an end|nested too deeply"):
            list(values_of(file, lambda path: len(path) < 1, source="test", chunk=16))
        assert file.tell() < 20_000


def test_memory_is_that_of_a_part_and_not_of_the_file() -> None:
    document = json.dumps({"products": {f"SKU{n}": {"attributes": {"memory": "1,152 GiB", "n": str(n)}} for n in range(60_000)}}).encode()  # fmt: skip
    assert len(document) > 3_500_000
    file = io.BytesIO(document)
    tracemalloc.start()
    try:
        count = sum(1 for _ in values_of(file, lambda path: len(path) < 2, source="test"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 60_000
    assert peak < 1_500_000
