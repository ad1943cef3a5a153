"""What is said before a long work on a CPU."""

import typer

LONG = 60.0
"""Seconds from which on it is worth saying how they become fewer."""


def tell_of_jobs(trainings: int, seconds: float, device: str, jobs: int) -> None:
    """Say that --jobs takes less time, where several trainings follow one another and nobody asked for it. A step is
    too small to keep all cores busy."""
    import torch

    threads = torch.get_num_threads()
    at_a_time = min(threads, trainings)
    if device == "cpu" and jobs == 1 and at_a_time > 1 and seconds > LONG:
        typer.echo(
            f"one training after another, on {threads} cores each; --jobs {at_a_time} trains {at_a_time} at a time, "
            "which takes less time and more memory",
            err=True,
        )
