"""Data sets known by name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """What is known of a data set without having it."""

    family: str
    """molecules, proteins, social, synthetic or vision."""
    graphs: int
    classes: int
    description: str
    in_paper: bool = False
    """Whether the paper's tables report it."""
    nodes: float = 30.0
    """Nodes of a graph on average, where that is known; a guess elsewhere."""


CATALOGUE: dict[str, Entry] = {
    "NCI1": Entry("molecules", 4110, 2, "compounds screened against lung cancer cells", in_paper=True, nodes=29.87),
    "NCI109": Entry(
        "molecules", 4127, 2, "compounds screened against ovarian cancer cells", in_paper=True, nodes=29.68
    ),
    "Mutagenicity": Entry(
        "molecules", 4337, 2, "compounds that do or do not mutate a bacterium", in_paper=True, nodes=30.32
    ),
    "IMDB-BINARY": Entry("social", 1000, 2, "actors around one actor; action or romance", in_paper=True, nodes=19.77),
    "IMDB-MULTI": Entry(
        "social", 1500, 3, "actors around one actor; comedy, romance or sci-fi", in_paper=True, nodes=13.0
    ),
    "COLLAB": Entry(
        "social", 5000, 3, "co-authors around one researcher; the field of physics", in_paper=True, nodes=74.49
    ),
    "PROTEINS": Entry("proteins", 1113, 2, "secondary structure elements; enzyme or not", in_paper=True, nodes=39.06),
    "motifs": Entry("synthetic", 1000, 4, "random graphs carrying one of four motifs; made here, nothing to download"),
    "AIDS": Entry("molecules", 2000, 2, "compounds active or inactive against HIV"),
    "BZR": Entry("molecules", 405, 2, "ligands of the benzodiazepine receptor"),
    "COLORS-3": Entry("synthetic", 10500, 11, "count the green nodes"),
    "COX2": Entry("molecules", 467, 2, "inhibitors of cyclooxygenase-2"),
    "DD": Entry("proteins", 1178, 2, "amino acids of a protein; enzyme or not"),
    "ENZYMES": Entry("proteins", 600, 6, "secondary structure elements; the enzyme's top class"),
    "FRANKENSTEIN": Entry("molecules", 4337, 2, "Mutagenicity with image vectors in place of atoms"),
    "MSRC_9": Entry("vision", 221, 8, "super-pixels of an image; its scene"),
    "MUTAG": Entry("molecules", 188, 2, "nitroaromatic compounds; mutagenic or not"),
    "PTC_FM": Entry("molecules", 349, 2, "carcinogenic to female mice or not"),
    "PTC_FR": Entry("molecules", 351, 2, "carcinogenic to female rats or not"),
    "PTC_MM": Entry("molecules", 336, 2, "carcinogenic to male mice or not"),
    "PTC_MR": Entry("molecules", 344, 2, "carcinogenic to male rats or not"),
    "REDDIT-BINARY": Entry("social", 2000, 2, "users of one thread; discussion or question and answer"),
    "REDDIT-MULTI-12K": Entry("social", 11929, 11, "users of one thread; which of eleven forums"),
    "REDDIT-MULTI-5K": Entry("social", 4999, 5, "users of one thread; which of five forums"),
    "solubility": Entry(
        "molecules", 1282, 3, "solubility in water: low, medium, high; comes with the extra chem", nodes=13.0
    ),
    "SYNTHETIC": Entry("synthetic", 300, 2, "one random graph with permuted node attributes"),
    "TRIANGLES": Entry("synthetic", 45000, 10, "count the triangles"),
}
"""By name, the paper's seven first. All but `motifs` and `solubility` are TU sets (Morris et al., 2020)."""


def family_of(name: str, labelled: bool = True) -> str:
    """The family of a data set. One that is not known by name is taken for molecules if its nodes have labels, and for
    social networks if not."""
    if name in CATALOGUE:
        return CATALOGUE[name].family
    return "molecules" if labelled else "social"
