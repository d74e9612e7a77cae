"""One folder with everything that the guide's commands name, for each family of models."""

from __future__ import annotations

import pytest
import torch

from real.files import FAMILIES, save_small, write_benchmarks, write_instruct

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """llava_instruct_150k.json, train2017/ and LMUData/, as the guide has them."""
    folder = tmp_path_factory.mktemp("data")
    write_instruct(folder, broken=(2,))
    write_benchmarks(folder / "LMUData")
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: save_small(name, folder / name) for name in FAMILIES}
