"""The registry of methods. No torch: a method's class is imported when it is built."""

from cgipool.errors import UserError, unknown
from cgipool.pool.method import CLASSICAL, NETWORK, TRAINING, Method, Part

CGI_PAPER = "Pang, Zhao, Li: Graph Pooling via Coarsened Graph Infomax. SIGIR 2021"

ECFP_PAPER = "control, after Rogers, Hahn: Extended-Connectivity Fingerprints. J. Chem. Inf. Model. 2010"

CGI_ARGUMENTS = ("dim", "ratio", "site", "mi", "negative", "encoding")
"""The arguments of both forms of CGIPool."""

METHODS: dict[str, Method] = {
    "cgi": Method(
        title="CGIPool",
        about="top-k by the difference of a real and a fake score, trained by coarsened graph infomax",
        paper=CGI_PAPER,
        build=Part("cgi:CGIPool", *CGI_ARGUMENTS, "outputs"),
        released=Part("cgi:ReleasedCGIPool", *CGI_ARGUMENTS),
        selects=True,
    ),
    "cgi-rs": Method(
        title="CGIPool-RS",
        about="the fake coarsened graph is k random nodes",
        paper=CGI_PAPER,
        build=Part("cgi:CGIPool", *CGI_ARGUMENTS, "outputs", negative="random"),
        released=Part("cgi:ReleasedCGIPool", *CGI_ARGUMENTS, negative="random"),
        kind="ablation",
        selects=True,
    ),
    "cgi-nomi": Method(
        title="CGIPool w/o MI",
        about="both branches and the fusion, without the mutual-information loss",
        paper=CGI_PAPER,
        build=Part("cgi:CGIPool", *CGI_ARGUMENTS, "outputs", negative="learned"),
        released=Part("cgi:ReleasedCGIPool", *CGI_ARGUMENTS, negative="learned"),
        own_loss=0.0,
        kind="ablation",
        selects=True,
    ),
    "set2set": Method(
        title="Set2Set",
        about="no pooling; an LSTM that attends to the nodes reads each level",
        paper="Vinyals, Bengio, Kudlur: Order Matters: Sequence to Sequence for Sets. ICLR 2016",
        build=Part("controls:NoPool"),
        read=Part("set2set:Set2Set", "dim", "levels", "jumping"),
        ignores=("gate",),
        cost=1.6,
        gpu_cost=1.15,
    ),
    "dgcnn": Method(
        title="DGCNN",
        about="no pooling; nodes sorted by a learned key are read as a sequence",
        paper="Zhang, Cui, Neumann, Chen: An End-to-End Deep Learning Architecture for Graph Classification. AAAI 2018",
        build=Part("controls:NoPool"),
        read=Part("dgcnn:DGCNN", "dim", "levels", "sizes"),
        ignores=("gate",),
        cost=0.8,
        gpu_cost=0.48,
    ),
    "diffpool": Method(
        title="DiffPool",
        about="soft assignment to K clusters by a GCN, with link and entropy losses",
        paper="Ying, You, Morris, Ren, Hamilton, Leskovec: Hierarchical Graph Representation Learning with "
        "Differentiable Pooling. NeurIPS 2018",
        build=Part("diffpool:DiffPool", "dim", "ratio", "site", "sizes"),
        new_edges=True,
        ignores=("gate",),
        own_loss=1.0,
        cost=2.5,
        gpu_cost=2.3,
    ),
    "topk": Method(
        title="TopKPool",
        about="top-k by the projection on a learned direction",
        paper="Gao, Ji: Graph U-Nets. ICML 2019",
        build=Part("topk:TopKPool", "dim", "ratio"),
        selects=True,
        cost=0.7,
        gpu_cost=0.51,
    ),
    "sag": Method(
        title="SAGPool",
        about="top-k by the score of a graph convolution",
        paper="Lee, Lee, Kang: Self-Attention Graph Pooling. ICML 2019",
        build=Part("sag:SAGPool", "dim", "ratio"),
        selects=True,
        cost=0.7,
        gpu_cost=0.43,
    ),
    "asap": Method(
        title="ASAP",
        about="top-k of attentive one-hop clusters by their fitness, joined by weighted edges",
        paper="Ranjan, Sanyal, Talukdar: ASAP: Adaptive Structure Aware Pooling for Learning Hierarchical Graph "
        "Representations. AAAI 2020",
        build=Part("asap:ASAP", "dim", "ratio"),
        new_edges=True,
        cost=5.0,
        gpu_cost=2.0,
    ),
    "vip": Method(
        title="VIPool",
        about="top-k by the mutual information of a vertex and its neighbourhood",
        paper="Li, Chen, Zhang, Tsang: Graph Cross Networks with Vertex Infomax Pooling. NeurIPS 2020",
        build=Part("vip:VIPool", "dim", "ratio", "site"),
        own_loss=Part("vip:loss_weight", "epoch"),
        own_loss_per_node=True,
        selects=True,
        cost=3.0,
        gpu_cost=1.7,
    ),
    "mincut": Method(
        title="MinCutPool",
        about="soft assignment to K clusters, with cut and orthogonality losses",
        paper="Bianchi, Grattarola, Alippi: Spectral Clustering with Graph Neural Networks for Graph Pooling. "
        "ICML 2020",
        build=Part("mincut:MinCutPool", "dim", "ratio", "site", "sizes"),
        new_edges=True,
        ignores=("gate",),
        own_loss=1.0,
        cost=2.0,
        gpu_cost=2.0,
    ),
    "none": Method(
        title="No pooling",
        about="three convolutions and their readouts",
        paper="control, after Mesquita, Souza, Kaski: Rethinking Pooling in Graph Neural Networks. NeurIPS 2020",
        build=Part("controls:NoPool"),
        kind="control",
        ignores=("gate",),
        cost=0.6,
        gpu_cost=0.43,
    ),
    "random": Method(
        title="Random nodes",
        about="k random nodes, drawn anew at each step",
        paper="control, after Mesquita, Souza, Kaski: Rethinking Pooling in Graph Neural Networks. NeurIPS 2020",
        build=Part("controls:RandomPool", "dim", "ratio", "site"),
        kind="control",
        selects=True,
        ignores=("gate",),
        cost=0.7,
        gpu_cost=0.6,
    ),
    "oracle": Method(
        title="Oracle",
        about="the nodes that decide the class, for generated sets with known nodes",
        paper="control, by definition",
        build=Part("controls:OraclePool"),
        kind="control",
        ignores=("gate",),
        cost=0.6,
        gpu_cost=0.43,
    ),
    "structure-free": Method(
        title="Structure-free",
        about="the sum of the node features and a perceptron; ignores edges",
        paper="control, after Errica, Podda, Bacciu, Micheli: A Fair Comparison of Graph Neural Networks for Graph "
        "Classification. ICLR 2020",
        build=None,
        architecture="sum",
        kind="control",
        ignores=NETWORK,
        cost=0.3,
        gpu_cost=0.14,
    ),
    "majority": Method(
        title="Majority class",
        about="the class frequencies of the training graphs; ignores graphs",
        paper="control, by definition",
        build=None,
        architecture="constant",
        kind="control",
        ignores=(*NETWORK, *TRAINING),
        cost=0.001,
        gpu_cost=0.001,
    ),
    "wl": Method(
        title="WL subtree + SVM",
        about="no network: counts of Weisfeiler-Lehman colours and a support vector machine",
        paper="Shervashidze, Schweitzer, van Leeuwen, Mehlhorn, Borgwardt: Weisfeiler-Lehman Graph Kernels. JMLR 2011",
        build=None,
        architecture="classical",
        kind="control",
        ignores=(*NETWORK, *CLASSICAL),
        cost=0.15,
        gpu_cost=0.15,
    ),
    "wl-oa": Method(
        title="WL-OA + SVM",
        about="no network: the Weisfeiler-Lehman optimal assignment kernel and a support vector machine",
        paper="Kriege, Giscard, Wilson: On Valid Optimal Assignment Kernels and Applications to Graph Classification. "
        "NIPS 2016",
        build=None,
        architecture="classical",
        kind="control",
        ignores=(*NETWORK, *CLASSICAL),
        cost=0.25,
        gpu_cost=0.25,
        most_graphs=6000,
    ),
    "ecfp-rf": Method(
        title="ECFP + random forest",
        about="no network: which atom environments a molecule has, and a random forest",
        paper=ECFP_PAPER,
        build=None,
        architecture="classical",
        kind="control",
        ignores=(*NETWORK, *CLASSICAL, "features", "kernel_edges"),
        of_molecules=True,
    ),
    "ecfp-count-rf": Method(
        title="ECFP counts + random forest",
        about="no network: how many atom environments of each kind a molecule has, and a random forest",
        paper=ECFP_PAPER,
        build=None,
        architecture="classical",
        kind="control",
        ignores=(*NETWORK, *CLASSICAL, "features", "kernel_edges"),
        of_molecules=True,
        molecular_control=True,
    ),
    "rdkit-rf": Method(
        title="RDKit descriptors + random forest",
        about="no network: RDKit's 2D descriptors of a molecule, and a random forest",
        paper="control, after Breiman: Random Forests. Machine Learning 2001; descriptors of rdkit.Chem.Descriptors",
        build=None,
        architecture="classical",
        kind="control",
        ignores=(*NETWORK, *CLASSICAL, "features", "kernel_edges"),
        of_molecules=True,
        molecular_control=True,
    ),
    "rdkit-et": Method(
        title="RDKit descriptors + extra trees",
        about="no network: RDKit's 2D descriptors of a molecule, and extremely randomised trees",
        paper="control, after Geurts, Ernst, Wehenkel: Extremely Randomized Trees. Machine Learning 2006; descriptors "
        "of rdkit.Chem.Descriptors",
        build=None,
        architecture="classical",
        kind="control",
        ignores=(*NETWORK, *CLASSICAL, "features", "kernel_edges"),
        of_molecules=True,
    ),
    "rdkit-svm": Method(
        title="RDKit descriptors, ECFP counts + SVM",
        about="no network: a kernel of RDKit's 2D descriptors and atom environments, and a support vector machine",
        paper="control, after Ralaivola, Swamidass, Saigo, Baldi: Graph Kernels for Chemical Informatics. Neural "
        "Networks 2005",
        build=None,
        architecture="classical",
        kind="control",
        ignores=(*NETWORK, *CLASSICAL, "features", "kernel_edges"),
        of_molecules=True,
        most_graphs=12_000,
        pair_seconds=2e-7,
    ),
}

NETWORKS = tuple(name for name, method in METHODS.items() if not method.classical)
"""All methods except those of `cgipool.classical`."""


BY_NEGATIVE = {("cgi", "random"): "cgi-rs"}
"""(method, kind of negatives) → the method with its own name for it. Both have the same cell keys."""


def is_own(name: str) -> bool:
    """Whether a method's name refers to a user's own class."""
    return ":" in name


def method_named(name: str) -> Method:
    """The method with this name. "package.module:Class" is a user's own pool."""
    if not isinstance(name, str):
        raise UserError(f"method must be a name, not {name!r}")
    if is_own(name):
        from cgipool.pool.own import own_method

        return own_method(name)
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
