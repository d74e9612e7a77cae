"""Declares the operators that torchvision from PyPI misses beside a CPU build of torch, when torchvision is imported.

Python imports this file by its name from PYTHONPATH, in every process of vLLM. A torchvision that was built for the same
torch has the operators, and nothing happens.
"""

import sys
from importlib.abc import MetaPathFinder

OPERATORS = tuple(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms"))
DECLARED = []  # an operator is there as long as its library


class DeclareOperators(MetaPathFinder):
    """Waits for `import torchvision`."""

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            if torch.version.cuda is None:
                library = torch.library.Library("torchvision", "FRAGMENT")
                DECLARED.append(library)
                for operator in OPERATORS:
                    library.define(operator)


sys.meta_path.insert(0, DeclareOperators())
