"""Eight tasks on drawn pictures: seeing, reasoning, reading. All of it follows from a seed."""

from vispco.data.dataset import Dataset, DrawnSample, dataset
from vispco.data.sample import Sample
from vispco.data.task import Task
from vispco.data.tasks import TASKS, metric, select

__all__ = ["TASKS", "Dataset", "DrawnSample", "Sample", "Task", "dataset", "metric", "select"]
