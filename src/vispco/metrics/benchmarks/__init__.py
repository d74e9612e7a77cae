"""The benchmarks of the paper, one file each, in the order of its tables."""

from vispco.metrics.benchmarks import aokvqa, vizwiz, seedbench, mmbench, mme, chartqa, ocrbench, textvqa  # noqa: I001

__all__ = ["aokvqa", "chartqa", "mmbench", "mme", "ocrbench", "seedbench", "textvqa", "vizwiz"]
