"""Numbers in sentences."""

UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}


def counted(count: int, thing: str) -> str:
    """ "1 epoch", "2,000 epochs": a number and what it counts, which is given in the singular."""
    ending = "" if count == 1 else "es" if thing.endswith("s") else "s"
    return f"{count:,} {thing}{ending}"


def are(count: int) -> str:
    """The verb that goes with a number."""
    return "is" if count == 1 else "are"


def in_bytes(count: int) -> str:
    """ "4 MB", "16 GB": a number of bytes in round figures."""
    for unit, size in UNITS.items():
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return counted(count, "byte")
