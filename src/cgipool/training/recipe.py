"""Recipes: every setting of a training except data, method and seed, each with its source.

"Paper" is section 4.1 of Pang et al., SIGIR 2021; "released" is the authors' public code where it differs.
"""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from cgipool.errors import UserError, check_ratio, excerpt, unknown
from cgipool.training.settings import INPUT, OPTIMISER, check_settings, setting

ALPHA_BY_DATASET = {"PROTEINS": "alpha_proteins"}
"""Data sets for which the paper gives a separate α, and the setting that holds it."""

READS_EDGES = ("gine", "transformer")
"""The convolutions that read edge labels and edge attributes. Edge weights act in all of them."""


@dataclass(frozen=True, repr=False)
class Recipe:
    """A complete set of settings. The defaults are the paper's."""

    name: str = "paper"
    """The name of this set of settings."""
    form: str = setting(
        "paper", "Form of a pooling method that has two: paper or released.", choices=("paper", "released")
    )
    conv: str = setting(
        "gcn",
        "Graph convolution: gcn, gcn-root (GCN plus a separate weight for the node itself), sage, gin, or, with edge "
        "features, gine or transformer.",
        "Paper: GCN. Released: GraphSAGE with mean aggregation.",
        choices=("gcn", "gcn-root", "sage", "gin", *READS_EDGES),
        noun="convolution",
    )
    norm: str = setting(
        "none",
        "Normalisation between a convolution and its ReLU: none, batch or layer.",
        "Paper: none.",
        choices=("none", "batch", "layer"),
        noun="normalisation",
    )
    gate: str = setting(
        "plain",
        "How scores scale the kept nodes: plain, or unit (divided by the mean score of a graph's kept nodes).",
        "Paper: plain.",
        choices=("plain", "unit"),
    )
    width: int = setting(128, "Dimension of node embeddings.", "Paper: 128.", least=2)  # the head halves it
    levels: int = setting(3, "Number of levels (convolution, pooling, readout).", "Paper: 3.", least=1)
    convs_per_level: int = setting(1, "Convolutions before each pool.", "Paper: 1.", least=1)
    residual: bool = setting(False, "Add a convolution's input to its output where the widths are equal.", "Paper: no.")
    directed: bool = setting(
        False,
        "Convolve along the edges and against them, with separate weights. On by default for sets imported with "
        "--directed.",
        "Paper: no.",
    )
    readout: str = setting(
        "max-mean",
        "Readout of a level: max-mean, mean, max or sum over its nodes.",
        'The paper says "a readout function"; max and mean side by side is the released code\'s.',
        choices=("max-mean", "mean", "max", "sum"),
    )
    jumping: str = setting(
        "sum", "How the readouts of the levels are combined: sum or concat.", "Paper: sum.", choices=("sum", "concat")
    )
    ratio: float | int = setting(
        0.8,
        "Nodes that a pooling layer keeps: a share up to 1.0, or a number of nodes.",
        "Paper: 0.8.",
        metavar="SHARE|COUNT",
    )
    mi: str = setting(
        "gan",
        "Bound on the mutual information: gan (Eq. 2 and 3) or kl (Eq. 1).",
        "Paper: gan.",
        choices=("gan", "kl"),
        noun="mutual-information bound",
    )
    negative: str = setting(
        "learned",
        "Negatives of CGIPool's mutual-information loss: learned (the fake graph of the paper), random (as cgi-rs), "
        "batch (other graphs), complement (the dropped nodes), predict or sufficient (see docs/reference/methods.md).",
        "Paper: learned.",
        choices=("learned", "random", "batch", "complement", "predict", "sufficient"),
        noun="kind of negatives",
    )
    encoding: str = setting(
        "plain",
        "Encodings that CGIPool's discriminator reads: plain, or unit (rescaled to one size, which hides the gates).",
        "Paper: plain.",
        choices=("plain", "unit"),
    )
    alpha: float = setting(0.001, "Weight of the mutual-information loss (on PROTEINS: 1).", "Paper: 0.001.", least=0)
    alpha_proteins: float = setting(
        1.0,
        "The same on the data set PROTEINS; equal to alpha if only that is given.",
        "Paper: 1. Released: 0.001, as for all data sets.",
        least=0,
    )
    own_loss: float = setting(
        1.0,
        "Factor on the auxiliary losses of DiffPool, MinCutPool and VIPool.",
        "The paper does not say; 1 keeps the weights of their authors.",
        least=0,
    )
    dropout: float = setting(
        0.5,
        "Dropout after the first layer of the head.",
        "The paper does not say; 0.5 is the released code's.",
        share=True,
    )
    dropout_epochs: int | None = setting(
        None,
        "Use dropout only in this many first epochs; none: in all.",
        "Released: 1, as its training flag is never set again.",
        least=0,
    )
    lr: float = setting(0.001, "Learning rate of Adam.", "Paper: 0.001.", OPTIMISER, least=0)
    schedule: str = setting(
        "constant",
        "Learning-rate schedule: constant, or cosine (to nearly 0 in the last epoch).",
        "Paper: constant.",
        OPTIMISER,
        choices=("constant", "cosine"),
    )
    warmup: int = setting(0, "Epochs of linear warm-up of the learning rate.", "Paper: none.", OPTIMISER, least=0)
    weight_decay: float = setting(0.0001, "L2 penalty of Adam.", "Paper: 0.0001. Released: 0.001.", OPTIMISER, least=0)
    critic_weight_decay: float | None = setting(
        None,
        "L2 penalty on weights that only the mutual-information loss trains (the discriminator); none: weight_decay.",
        "Paper: none of its own.",
        OPTIMISER,
        least=0,
    )
    clip: float = setting(
        0.0, "Largest norm of the gradient of a step; 0: no clipping.", "Paper: none.", OPTIMISER, least=0
    )
    average: float = setting(
        0.0,
        "Decay of an exponential moving average of the weights, which then replaces them; 0: no averaging.",
        "Paper: none.",
        OPTIMISER,
        share=True,
    )
    batch_size: int = setting(
        128, "Graphs per step.", "The paper does not say; 128 is the released code's.", OPTIMISER, least=1
    )
    shuffle: bool = setting(
        True,
        "Use a new order of the graphs in each epoch.",
        "The paper does not say. Released: one random order for all epochs.",
        OPTIMISER,
    )
    epochs: int = setting(
        1000, "Maximum number of epochs.", "The paper does not say; 1000 is the released code's.", OPTIMISER, least=1
    )
    patience: int = setting(
        100,
        "Stop after this many epochs without an improvement of stop_by.",
        "Paper: 100.",
        OPTIMISER,
        least=1,
    )
    stop_by: str = setting(
        "loss",
        "What early stopping watches on the validation graphs: loss, or a metric of the task, such as roc_auc or mae.",
        "Paper: loss.",
        OPTIMISER,
        choices=("loss", "accuracy", "balanced_accuracy", "mcc", "roc_auc", "pr_auc", "log_loss", "brier", "ece",
                 "rmse", "mae", "r2", "spearman"),
        noun="metric",
        metavar="METRIC",
    )  # fmt: skip
    features: str = setting(
        "auto",
        "Node categories: label, degree, label+degree, or auto (labels if there are any, else degrees).",
        "Paper: auto.",
        INPUT,
        choices=("auto", "label", "degree", "label+degree"),
        noun="feature source",
    )
    vocabulary: str = setting(
        "train",
        "Take node categories from the train graphs (the rest is one category, other) or from all.",
        "Released: all.",
        INPUT,
        choices=("train", "all"),
    )
    attributes: bool = setting(
        False,
        "Also use node attributes. On by default for your own data sets in train, fit and compare.",
        "Paper: no, although PROTEINS has them.",
        INPUT,
    )
    featurizer: str = setting(
        "auto",
        "Features of molecules: labels (8 of atoms, 2 of bonds), atoms-and-bonds (all), or auto (all, but labels for "
        "sets of the catalogue). Only conv=gine and conv=transformer read bonds.",
        "Paper: its data sets have only labels.",
        INPUT,
        choices=("auto", "labels", "atoms-and-bonds"),
    )
    wl: int = setting(
        0, "Rounds of Weisfeiler-Lehman colours, added as node categories.", "Paper: none.", INPUT, least=0
    )
    rwse: int = setting(
        0, "Steps of the random-walk encoding, added as node attributes; 0: none.", "Paper: none.", INPUT, least=0
    )
    lappe: int = setting(
        0, "Eigenvectors of the Laplacian encoding, added as node attributes; 0: none.", "Paper: none.", INPUT, least=0
    )
    kernel_edges: bool = setting(True, "Use edge labels, if there are any, in the methods wl and wl-oa.", "", INPUT)
    descriptors: str = setting(
        "",
        "Numeric columns of your table, separated by commas, that are concatenated to the readout.",
        "Paper: none.",
        INPUT,
        metavar="COLUMNS",
    )
    impute: str = setting(
        "none",
        "Missing descriptors: none (an error), or mean (replaced by the mean of the training graphs).",
        "Paper: none.",
        INPUT,
        choices=("none", "mean"),
    )
    rdkit_descriptors: bool = setting(
        False, "For molecules: concatenate RDKit's 2D descriptors to the readout.", "Paper: none.", INPUT
    )
    fingerprints: int = setting(
        0,
        "For molecules: concatenate ECFP4 counts, folded to this many columns, to the readout; 0: none.",
        "Paper: none.",
        INPUT,
        least=0,
        metavar="BITS",
    )
    class_weight: str | None = setting(
        None,
        "balanced: weight classes by inverse frequency in the training graphs.",
        "Paper: none.",
        OPTIMISER,
        choices=("balanced",),
        noun="class weight",
    )
    labelled: float = setting(
        1.0,
        "Share of training graphs whose labels are used, stratified by class; the mutual-information loss uses all.",
        "Paper: 1.",
        OPTIMISER,
        metavar="SHARE",
    )
    label_smoothing: float = setting(
        0.0, "Label smoothing of the training loss.", "Paper: none.", OPTIMISER, share=True
    )
    focal: float = setting(
        0.0,
        "Exponent γ of the focal loss, which down-weights well-classified graphs; 0: cross-entropy.",
        "Paper: cross-entropy.",
        OPTIMISER,
        least=0,
    )
    balanced_batches: bool = setting(
        False,
        "Show every class equally often, by repeating the graphs of rare classes.",
        "Paper: no.",
        OPTIMISER,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        check_ratio(self.ratio)
        if not 0.0 < self.labelled <= 1.0:
            raise UserError(f"labelled must be in (0, 1], not {self.labelled}")
        columns = self.descriptor_columns
        if self.descriptors.strip() and not columns:
            raise UserError(f"descriptors must be names of columns, separated by commas, not {self.descriptors!r}")
        if twice := [name for place, name in enumerate(columns) if name in columns[:place]]:
            raise UserError(f"descriptors lists the column {excerpt(twice[0])!r} twice")

    def __repr__(self) -> str:
        """The name, and the settings that differ from the recipe of that name."""
        return f"Recipe({', '.join([repr(self.name), *(f'{n}={v!r}' for n, v in self.settings().items())])})"

    def alpha_on(self, dataset: str) -> float:
        """Return α for a data set."""
        return getattr(self, ALPHA_BY_DATASET.get(dataset, "alpha"))

    @property
    def descriptor_columns(self) -> tuple[str, ...]:
        """The columns of a table that are read as descriptors."""
        return tuple(name.strip() for name in self.descriptors.split(",") if name.strip())

    @property
    def reads_edges(self) -> bool:
        """Whether the convolution reads edge labels and edge attributes."""
        return self.conv in READS_EDGES

    @property
    def steady(self) -> bool:
        """Whether the learning rate is the same in all epochs."""
        return self.schedule == "constant" and self.warmup == 0

    def rate_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 1. In epoch i of a warm-up over w epochs it is the
        schedule's rate times i / (w + 1)."""
        share = 1.0 if self.schedule == "constant" else 0.5 * (1.0 + math.cos(math.pi * (epoch - 1) / self.epochs))
        return self.lr * share * min(1.0, epoch / (self.warmup + 1))

    def dropout_at(self, epoch: int) -> float:
        """Return the dropout rate of an epoch."""
        return self.dropout if self.dropout_epochs is None or epoch <= self.dropout_epochs else 0.0

    def but(self, **changes: Any) -> "Recipe":
        """Return a copy with some settings changed."""
        for name in changes:
            if name not in (*SETTINGS, "name"):
                raise unknown("setting", name, SETTINGS)
        if "alpha" in changes:  # an α set by the user applies to every data set
            changes = dict.fromkeys(ALPHA_BY_DATASET.values(), changes["alpha"]) | changes
        return replace(self, **changes) if changes else self

    def changes(self) -> dict[str, Any]:
        """Return the settings that differ from the recipe of this name."""
        from cgipool.training.presets import RECIPES  # which are recipes themselves

        usual = RECIPES.get(self.name, RECIPES["paper"]).to_json()
        return {name: value for name, value in self.to_json().items() if value != usual[name]}

    def settings(self) -> dict[str, Any]:
        """Return the arguments of `but` that turn the recipe of this name into this one."""
        changes = self.changes()
        if "alpha" in changes:  # `but` sets alpha_proteins with it
            changes.pop("alpha_proteins", None)
            changes |= {} if self.alpha_proteins == self.alpha else {"alpha_proteins": self.alpha_proteins}
        return changes

    def to_json(self) -> dict[str, Any]:
        """Return plain values by name."""
        return asdict(self)


SETTINGS = tuple(field.name for field in fields(Recipe) if field.name != "name")
"""The names of all settings."""
