"""The data sets that are known by name."""

from dataclasses import dataclass, replace

from cgipool.errors import counted


@dataclass(frozen=True)
class CatalogueEntry:
    """Facts about a data set that are known without the data."""

    family: str
    """molecules, proteins, social, synthetic or vision."""
    graphs: int
    classes: int
    description: str
    in_paper: bool = False
    """Whether the paper's tables report it."""
    nodes: float = 30.0
    """Mean number of nodes per graph; a guess for sets where it is not known."""
    edges: bool = False
    """Whether edges have labels."""
    extra: str = ""
    """The extra of this package that installs the data set; empty if it is downloaded or generated."""
    content: str = ""
    """The SHA-256 of the parsed content, from `CONTENT`; empty if it is not known."""

    def difference(self, graphs: int, classes: int) -> str | None:
        """For a message: how a set with these counts differs from this one; None if it does not."""
        for found, known, things in ((graphs, self.graphs, "graph"), (classes, self.classes, "class")):
            if found != known:
                return f"it has {counted(found, things)}, not {known:,}"
        return None


CONTENT = {
    "NCI1": "04f603ec6f67e1059b487da8cce082c97098f3f3073463460e98dbc2f0abc89a",
    "NCI109": "cf4a9602cdb7217d237fe5a81117f544cf1795e0b9ba625a395037cf2772f564",
    "IMDB-BINARY": "1e20b316fe7f273888bc186bfdfa95bc1a387557c19f4b2aa27696935b961dd5",
    "IMDB-MULTI": "d583d9cc3bd1a19c69c6ff1dd3aa2ac1ed6ed417cf79f24a38869da898f3e1c7",
    "PROTEINS": "e222f50d435d377c7bec53272b485666900de241d1ada1b1c060d4c651761525",
    "ENZYMES": "01cc12d8254344c01fa0bb1a31af4ee6535de0f2103ea648f111452eb92f2362",
    "MUTAG": "6de6dba1216999b15e07ffd7715e00447d4359823d4a75cb689121bd4983acc5",
    "PTC_MR": "377038e1d83f1ad2c93275d5c14b1ae4666aaded6fd8f099bc396cac9ea92165",
}
"""SHA-256 of the parsed content (`digests.content`) of each set for which at least two public copies agree.

The bytes of an archive are not compared, because they change whenever it is packed again.
"""

_ENTRIES = {
    "NCI1": CatalogueEntry(
        "molecules", 4110, 2, "compounds screened against lung cancer cells", in_paper=True, nodes=29.87
    ),
    "NCI109": CatalogueEntry(
        "molecules", 4127, 2, "compounds screened against ovarian cancer cells", in_paper=True, nodes=29.68
    ),
    "Mutagenicity": CatalogueEntry(
        "molecules", 4337, 2, "compounds that do or do not mutate a bacterium", in_paper=True, nodes=30.32, edges=True
    ),
    "IMDB-BINARY": CatalogueEntry(
        "social", 1000, 2, "actors around one actor; action or romance", in_paper=True, nodes=19.77
    ),
    "IMDB-MULTI": CatalogueEntry(
        "social", 1500, 3, "actors around one actor; comedy, romance or sci-fi", in_paper=True, nodes=13.0
    ),
    "COLLAB": CatalogueEntry(
        "social", 5000, 3, "co-authors around one researcher; the field of physics", in_paper=True, nodes=74.49
    ),
    "PROTEINS": CatalogueEntry(
        "proteins", 1113, 2, "secondary structure elements; enzyme or not", in_paper=True, nodes=39.06
    ),
    "motifs": CatalogueEntry(
        "synthetic", 1000, 4, "random graphs with one of four motifs; generated, nothing to download"
    ),
    **{
        f"needle-{nodes}": CatalogueEntry(
            "synthetic", 1000, 2, f"5 of {nodes} nodes decide the class; generated, nothing to download", nodes=nodes
        )
        for nodes in (30, 60, 100, 300, 1000)
    },
    "circulant": CatalogueEntry(
        "synthetic", 1000, 2, "rings that 1-WL cannot tell apart; generated, nothing to download", nodes=22.5
    ),
    "AIDS": CatalogueEntry("molecules", 2000, 2, "compounds active or inactive against HIV", edges=True),
    "BZR": CatalogueEntry("molecules", 405, 2, "ligands of the benzodiazepine receptor"),
    "COLORS-3": CatalogueEntry("synthetic", 10500, 11, "count the green nodes"),
    "COX2": CatalogueEntry("molecules", 467, 2, "inhibitors of cyclooxygenase-2"),
    "DD": CatalogueEntry("proteins", 1178, 2, "amino acids of a protein; enzyme or not", nodes=284.32),
    "ENZYMES": CatalogueEntry("proteins", 600, 6, "secondary structure elements; the enzyme's top class"),
    "FRANKENSTEIN": CatalogueEntry("molecules", 4337, 2, "Mutagenicity with image vectors in place of atoms"),
    "MSRC_9": CatalogueEntry("vision", 221, 8, "super-pixels of an image; its scene"),
    "MUTAG": CatalogueEntry("molecules", 188, 2, "nitroaromatic compounds; mutagenic or not", edges=True),
    "PTC_FM": CatalogueEntry("molecules", 349, 2, "carcinogenic to female mice or not", edges=True),
    "PTC_FR": CatalogueEntry("molecules", 351, 2, "carcinogenic to female rats or not", edges=True),
    "PTC_MM": CatalogueEntry("molecules", 336, 2, "carcinogenic to male mice or not", edges=True),
    "PTC_MR": CatalogueEntry("molecules", 344, 2, "carcinogenic to male rats or not", edges=True),
    "REDDIT-BINARY": CatalogueEntry(
        "social", 2000, 2, "users of one thread; discussion or question and answer", nodes=429.63
    ),
    "REDDIT-MULTI-12K": CatalogueEntry("social", 11929, 11, "users of one thread; which of eleven forums"),
    "REDDIT-MULTI-5K": CatalogueEntry("social", 4999, 5, "users of one thread; which of five forums"),
    "solubility": CatalogueEntry(
        "molecules",
        1282,
        3,
        "solubility in water: low, medium, high; comes with the extra chem",
        nodes=13.0,
        edges=True,
        extra="chem",
    ),
    "SYNTHETIC": CatalogueEntry("synthetic", 300, 2, "one random graph with permuted node attributes"),
    "TRIANGLES": CatalogueEntry("synthetic", 45000, 10, "count the triangles"),
}

CATALOGUE = {name: replace(entry, content=CONTENT.get(name, "")) for name, entry in _ENTRIES.items()}
"""By name, the paper's seven first. All are TU sets (Morris et al., 2020), except `solubility` and the generated sets
(`motifs`, `needle-…`, `circulant`)."""


def extra_of(name: str) -> str:
    """The extra that installs a data set of this name; empty for any other name."""
    return CATALOGUE[name].extra if name in CATALOGUE else ""


def family_of(name: str, labelled: bool = True) -> str:
    """The family of a data set. Unknown sets count as molecules if their nodes have labels, otherwise as social
    networks."""
    if name in CATALOGUE:
        return CATALOGUE[name].family
    return "molecules" if labelled else "social"
