"""The tasks by name, and the task of a data set."""

from cgipool.data.graphs import GraphSet
from cgipool.task.base import Task
from cgipool.task.classification import Classification
from cgipool.task.multilabel import MultiLabel
from cgipool.task.regression import Regression

TASKS: dict[str, type[Task]] = {
    "classification": Classification,
    "regression": Regression,
    "multilabel": MultiLabel,
}


def task_named(name: str, columns: tuple[str, ...]) -> Task:
    """The task of this name; `columns` are its classes or target columns."""
    return TASKS[name](columns)


def task_of(graphs: GraphSet) -> Task:
    """The task of a data set."""
    return task_named(graphs.task, graphs.class_names if graphs.task == "classification" else graphs.target_names)
