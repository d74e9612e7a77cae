"""Area equalisation: as many small pictures as large ones, the same ones for the same seed."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.data.files import Jsonl, equalise_areas, read_areas, take

SKEWED = [100.0] * 900 + [500.0] * 90 + [1000.0] * 10


def test_every_bin_that_has_pictures_ends_with_the_same_number():
    sample = equalise_areas(SKEWED, 300, bins=3, seed=0)
    assert sample.before == (900, 90, 10)
    assert sample.after == (100, 100, 100)
    assert Counter(SKEWED[index] for index in sample.indices) == {100.0: 100, 500.0: 100, 1000.0: 100}
    assert sample.edges == (100.0, 400.0, 700.0, 1000.0)


def test_bins_are_uniform_over_the_range_and_empty_ones_stay_empty():
    sample = equalise_areas(SKEWED, 300, bins=9)
    assert [count for count in sample.after if count] == [100, 100, 100]
    widths = [high - low for low, high in zip(sample.edges, sample.edges[1:], strict=False)]
    assert widths == pytest.approx([100.0] * 9)


def test_a_subsampled_bin_has_no_repeats_and_an_oversampled_one_repeats_evenly():
    times = Counter(equalise_areas(SKEWED, 300, bins=3).indices)
    assert {times[index] for index in range(900)} == {0, 1}
    assert {times[index] for index in range(900, 990)} == {1, 2}
    assert {times[index] for index in range(990, 1000)} == {10}


def test_the_seed_decides_and_nothing_else():
    first, again, other = (equalise_areas(SKEWED, 300, bins=3, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.indices != other.indices


def test_one_enormous_picture_fills_half_of_the_data():
    areas = [100.0 + number for number in range(1000)] + [1e8]
    assert Counter(equalise_areas(areas, 1000).indices)[1000] == 500


def test_equal_areas_and_unreadable_ones():
    assert equalise_areas([7.0] * 5, 3).after[0] == 3
    assert set(equalise_areas([7.0, float("nan"), 9.0], 10, bins=2).indices) == {0, 2}
    with pytest.raises(InvalidInputError, match="nothing to sample"):
        equalise_areas([], 3)
    with pytest.raises(InvalidInputError, match="n = 0"):
        equalise_areas([1.0], 0)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=60),
    st.integers(1, 200),
    st.integers(1, 12),
)
def test_the_number_asked_for_is_given_in_equal_parts(areas, n, bins):
    sample = equalise_areas(areas, n, bins=bins)
    assert sum(sample.before) == len(areas)
    assert len(sample.indices) == sum(sample.after)
    filled = [after for before, after in zip(sample.before, sample.after, strict=True) if before]
    assert len(sample.indices) == n
    assert max(filled) - min(filled) <= 1
    assert all(after == 0 for before, after in zip(sample.before, sample.after, strict=True) if not before)


@pytest.fixture
def pictures(tmp_path, encode):
    lines = []
    for number in range(12):
        side = 4 if number < 10 else 40
        (tmp_path / f"{number}.png").write_bytes(encode(Image.new("RGB", (side, side))))
        lines.append(f'{{"id": "p{number}", "image": "{number}.png", "question": "q", "answer": "a"}}\n')
    (tmp_path / "data.jsonl").write_text("".join(lines))
    return tmp_path / "data.jsonl"


def test_both_passes_over_a_file(pictures):
    records = Jsonl(pictures)
    sample = equalise_areas(read_areas(records), 8, bins=2)
    taken = list(take(records, sample.indices))
    assert (sample.before, sample.after) == ((10, 2), (4, 4))
    assert Counter(record.image().size for record in taken) == {(4, 4): 4, (40, 40): 4}
    assert len({record.id for record in taken}) == 8
    assert "p10#11~1" in {record.id for record in taken}
    assert sample.to_dict()["after"] == (4, 4)


def test_areas_come_from_the_headers_alone(pictures, encode):
    data = encode(Image.effect_noise((4, 4), 50).resize((400, 400)), "PNG")
    (pictures.parent / "11.png").write_bytes(data[:64])  # cut off right behind the header
    assert read_areas(Jsonl(pictures))[11] == 160_000.0


def test_a_broken_header_is_counted_and_never_chosen(pictures):
    (pictures.parent / "3.png").write_bytes(b"\x89PNG broken")
    reader = Jsonl(pictures)
    areas = read_areas(reader)
    assert dict(reader.report.reasons) == {"broken image": 1}
    sample = equalise_areas(areas, 100)
    assert 3 not in sample.indices
    assert sample.unreadable == 1


def test_take_stops_reading_after_the_last_one(pictures):
    seen = []
    records = take((seen.append(record.id) or record for record in Jsonl(pictures)), [1, 2, 2])
    assert [record.id for record in records] == ["p1#2", "p2#3", "p2#3~1"]
    assert len(seen) == 3
