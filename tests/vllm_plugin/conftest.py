import gc
import os

import pytest

from vispco import models as zoo
from vispco.core.errors import VispcoError
from vispco.vllm.engine_arguments import check_version

try:
    check_version()
    MISSING = None
except VispcoError as error:
    MISSING = f"{error} `make vllm-test` builds an environment for these tests."
WITHOUT_VLLM = ("test_arguments.py", "test_choosing.py")


def pytest_collection_modifyitems(items):
    for item in items:
        if MISSING and item.path.parent.name == "vllm_plugin" and item.path.name not in WITHOUT_VLLM:
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="module", params=["tiny-qwen3", "tiny-qwen", "tiny-llava", "internvl"])
def pair(request, tmp_path_factory):
    """An engine and transformers with the same weights."""
    from vllm_plugin.lifted import lifted
    from vllm_plugin.pairs import ENVIRONMENT, Engine, Reference

    os.environ.update(ENVIRONMENT)
    folder = lifted(request.param, tmp_path_factory.mktemp("lifted") / request.param)
    engine = Engine(folder, "divprune", max_num_batched_tokens=48)  # chunks that cut pictures in two
    yield engine, Reference(request.param if request.param in zoo.names() else folder, "divprune")
    from vllm.distributed import cleanup_dist_env_and_memory

    engine.llm.llm_engine.engine_core.shutdown()
    del engine
    cleanup_dist_env_and_memory()
    gc.collect()
