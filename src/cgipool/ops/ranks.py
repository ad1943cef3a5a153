"""The nodes of each graph by their scores: kernels and shapes."""

from cgipool.ops.cpu import ranks as cpu
from cgipool.ops.graph_op import GraphOp
from cgipool.ops.shapes import like

keep_top_k = GraphOp(cpu.keep_top_k, 2, lambda score, alive, k, graph, slot_ptr: like(score), gpu="ranks.keep_top_k")
order = GraphOp(cpu.order, 1, lambda score, alive, graph, slot_ptr: (like(graph), like(graph)), gpu="ranks.order")
