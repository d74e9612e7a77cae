"""A file of 200,000 items takes no more memory than one of 20,000, and its first item is there at once."""

import json
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from vispco.data.files import Jsonl, LlavaInstruct, Tsv

SHORT, LONG = 20_000, 200_000


def write_table(folder, count, cell, talk):
    path = folder / f"{count}.tsv"
    with path.open("w", encoding="utf-8") as stream:
        stream.write("index\timage\tquestion\tA\tB\tanswer\n")
        for number in range(count):
            # One row in ten names the picture of the row before it, as MMBench does.
            stream.write(f"{number}\t{cell if number % 10 else number - 1 if number else cell}\tWhich?\tdog\tcat\tA\n")
    return path


def write_list(folder, count, cell, talk):
    path = folder / f"{count}.json"
    with path.open("w", encoding="utf-8") as stream:
        stream.write("[")
        for number in range(count):
            element = talk("<image>\nWhat?", "A cat.", id=number, image="a.png")
            stream.write(json.dumps(element) + (",\n" if number < count - 1 else "]"))
    return path


def write_lines(folder, count, cell, talk):
    path = folder / f"{count}.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(
            f'{{"id": {number}, "image": "a.png", "question": "q", "answer": "a"}}\n' for number in range(count)
        )
    return path


def peak(reader, count):
    """The most memory that Python held while the whole file was read."""
    tracemalloc.start()
    assert sum(1 for _ in reader) == count
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize(("write", "reader"), [(write_table, Tsv), (write_list, LlavaInstruct), (write_lines, Jsonl)])
def test_ten_times_the_length_has_the_same_peak(tmp_path, write, reader, png, cell, talk):
    (tmp_path / "a.png").write_bytes(png)
    few, many = (peak(reader(write(tmp_path, count, cell, talk)), count) for count in (1_000, 10_000))
    assert many < few * 1.1 + 100_000
    assert many < 8_000_000


def resident():
    """Bytes of this process in memory now. Tracing every allocation would make 200,000 items take minutes."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * 4096 if pages.exists() else 0


@pytest.mark.parametrize(("write", "reader"), [(write_table, Tsv), (write_list, LlavaInstruct)])
def test_200_000_items_take_the_memory_of_20_000_and_the_first_comes_at_once(tmp_path, write, reader, png, cell, talk):
    (tmp_path / "a.png").write_bytes(png)
    records = reader(write(tmp_path, LONG, cell, talk))
    begun = time.perf_counter()
    assert next(iter(records)).image().size == (8, 6)
    assert time.perf_counter() - begun < 2.0
    held = {}
    for number, _ in enumerate(records, start=1):
        if number in (SHORT, LONG):  # while the reader is still at work: what it holds is freed at the end
            held[number] = sys.getallocatedblocks(), resident()
    assert number == LONG
    assert held[LONG][0] - held[SHORT][0] < 2_000
    assert held[LONG][1] - held[SHORT][1] < 4_000_000


def test_a_file_of_broken_rows_does_not_fill_the_report(tmp_path, cell):
    path = tmp_path / "bad.tsv"
    path.write_text(
        f"index\timage\tquestion\tanswer\n0\t{cell}\tq\ta\n" + "".join(f"{n}\t\tq\ta\n" for n in range(1, 5000))
    )
    reader = Tsv(path)
    assert len(list(reader)) == 1
    assert (reader.report.count, len(reader.report.listed)) == (4999, 1000)
    assert reader.report.summary() == "4999 of 5000 items skipped: 4999 no image"
