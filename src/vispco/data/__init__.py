"""Eight tasks on drawn pictures: seeing, reasoning, reading. All of it follows from a seed."""

from vispco.data.dataset import Dataset, DrawnSample, dataset
from vispco.data.metric import metric
from vispco.data.sample import Sample, Task
from vispco.data.tasks import TASKS, select

__all__ = ["TASKS", "Dataset", "DrawnSample", "Sample", "Task", "dataset", "metric", "select"]
