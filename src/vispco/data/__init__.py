"""Eight tasks on drawn pictures: seeing, reasoning, reading. All of it follows from a seed."""

from vispco.data.dataset import TASKS, Dataset, DrawnSample, dataset, metric, select
from vispco.data.sample import Sample
from vispco.data.tasks import Task

__all__ = ["TASKS", "Dataset", "DrawnSample", "Sample", "Task", "dataset", "metric", "select"]
