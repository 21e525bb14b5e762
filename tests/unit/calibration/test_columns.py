"""Files of measurements: told apart by their header, read strictly, refused in one line that says where and why."""

from __future__ import annotations

import hashlib

import pytest

from planner.calibration.columns import (
    COLUMNS,
    REQUIRED,
    ROW_ID,
    MeasurementsError,
    parse_measurements,
    shipped_measurements,
)
from planner.calibration.model import Workload

SERVING = "row_id,model,gpu,precision_weights,input_len,output_len,metric_name,metric_value"
LINE = "a1,meta-llama/Llama-2-7b-hf,A100 SXM4 80GB,fp16,128,128,output_tok_s,1000"


def parsed(text: str):
    return parse_measurements(text.encode())


@pytest.mark.parametrize("workload", list(Workload))
def test_the_shipped_tables_have_the_columns_of_their_set(workload: Workload) -> None:
    table = shipped_measurements(workload)
    assert table.workload is workload
    assert set(table.rows[0]) == set(COLUMNS[workload])
    assert len({row[ROW_ID[workload]] for row in table.rows}) == len(table.rows)
    assert len(table.rows) > 2000
    assert all(float(row["metric_value"]) > 0 for row in table.rows)


@pytest.mark.parametrize("workload", list(Workload))
def test_the_needed_columns_alone_are_enough_in_any_order_and_case(workload: Workload) -> None:
    names = [*reversed(REQUIRED[workload])]
    own = [c for c in COLUMNS[workload] if not any(c in COLUMNS[w] for w in Workload if w is not workload)]
    names += own[:1] if not set(own) & set(names) else []
    got = parsed(",".join(n.upper() for n in names) + "\n" + ",".join("1" for _ in names) + "\n")
    assert got.workload is workload
    assert set(got.rows[0]) == set(COLUMNS[workload])
    assert got.rows[0][ROW_ID[workload]] == "line 2"


def test_cells_are_kept_as_text_and_what_the_file_does_not_say_is_empty() -> None:
    got = parsed(f'\ufeff{SERVING},my own,notes\n{LINE},x,"two\nlines, with ""quotes"""\n')
    (row,) = got.rows
    assert row["metric_value"] == "1000"
    assert row["notes"] == 'two\nlines, with "quotes"'
    assert row["my own"] == "x"
    assert row["engine"] == ""


def test_the_hash_is_of_the_content() -> None:
    text = f"{SERVING}\n{LINE}\n"
    assert parsed(text).sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_every_row_has_an_id_of_its_own() -> None:
    got = parsed(f"{SERVING}\n{LINE}\n{LINE}\n{LINE.replace('a1', '')}\n")
    assert [row["row_id"] for row in got.rows] == ["a1", "a1 (line 3)", "line 4"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty: the first line must name the columns"),
        (b"\n\n", "is empty"),
        (SERVING.encode() + b"\n", "has no rows below its column names"),
        (SERVING.encode() + b"\n\n  \n", "line 3: has 1 cells, the header has 8 columns"),
        (f"{SERVING}\n{LINE}\n{LINE},9\n".encode(), "line 3: has 9 cells, the header has 8 columns"),
        (f"{SERVING}\n{LINE}\n{LINE[:20]}\n".encode(), "line 3: has 2 cells"),
        (f"{SERVING}\n{LINE}\n\xe9".encode("latin-1"), "line 3: is not text in UTF-8"),
        (f"{SERVING}\n{LINE}\n".encode("utf-16"), "is a text in UTF-16; save it in UTF-8"),
        (f"{SERVING}\n{LINE}\n\0\n".encode(), "line 3: holds a zero byte"),
        (f'{SERVING}\n{LINE},"\n'.encode(), "line 2: is not CSV"),
        (f"{SERVING},gpu\n{LINE},x\n".encode(), "line 1: names column 'gpu' twice"),
        (SERVING.replace(",", ";").encode() + b"\n", "line 1: its cells are separated by semicolons; separate them by commas"),
        (SERVING.replace(",", "\t").encode() + b"\n", "separated by tabs"),
        (b"name,price\nx,1\n", "line 1: is the header of no known column set; needed are, for serving: model, gpu"),
        (SERVING.replace("gpu,", "").encode() + b"\n", "line 1: has columns of serving measurements but not gpu, which a prediction needs"),
        (b"id,task,gpu,gpu_count,metric_name,metric_value\n", "columns of training measurements but not model, precision"),
        (b"gmacs,precision,gpu,batch_size,metric_name\n", "columns of samples measurements but not model, metric_value"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not text in UTF-8"),
    ],
)  # fmt: skip
def test_what_is_no_measurement_file_is_refused_in_one_line(data: bytes, said: str) -> None:
    with pytest.raises(MeasurementsError) as refused:
        parse_measurements(data)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_columns_that_are_not_read_are_named_with_what_they_may_be() -> None:
    found = parsed(f"{SERVING},id,concurrency,Tensor_Parallel,ttft_ms_p5,colour\n{LINE},,8,2,1,red\n")
    assert found.unknown == {
        "concurrency": "batch_or_concurrency",
        "tensor_parallel": "tp",
        "ttft_ms_p5": "ttft_ms_p50",
        "colour": "",
    }
    # A column that the header has is nobody's intended name.
    assert parsed(f"{SERVING},tp,tensor_parallel\n{LINE},2,2\n").unknown == {"tensor_parallel": ""}
    assert all(not shipped_measurements(w).unknown for w in Workload)
