"""Show which nodes a fitted model keeps at each pooling level, and measure how faithful this is to its prediction."""

from cgipool.explain.explanation import Explanation, explain_at, explain_graph
from cgipool.explain.fidelity import Faithfulness, faithfulness
from cgipool.explain.page import page
from cgipool.explain.picture import draw
from cgipool.explain.scores import write_scores
from cgipool.explain.trace import Trace, cut, trace

__all__ = [
    "Explanation",
    "Faithfulness",
    "Trace",
    "cut",
    "draw",
    "explain_at",
    "explain_graph",
    "faithfulness",
    "page",
    "trace",
    "write_scores",
]
