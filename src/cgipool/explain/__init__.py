"""Which nodes a fitted model keeps at each level, and whether that means anything."""

from cgipool.explain.draw import draw
from cgipool.explain.faithful import Faithfulness, faithfulness
from cgipool.explain.one import Explained, explain_at, explain_graph
from cgipool.explain.page import page
from cgipool.explain.rows import write_scores
from cgipool.explain.trace import Trace, cut, trace

__all__ = [
    "Explained",
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
