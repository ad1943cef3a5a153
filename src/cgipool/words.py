"""Numbers in sentences."""


def counted(count: int, thing: str) -> str:
    """ "1 epoch", "2,000 epochs": a number and what it counts, which is given in the singular."""
    ending = "" if count == 1 else "es" if thing.endswith("s") else "s"
    return f"{count:,} {thing}{ending}"


def are(count: int) -> str:
    """The verb that goes with a number."""
    return "is" if count == 1 else "are"
