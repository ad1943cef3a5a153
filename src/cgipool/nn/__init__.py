"""The pooling methods as layers of PyG's conventions: a model written for PyG takes them by changing one import."""

from cgipool.nn.base import PoolingOutput
from cgipool.nn.layers import ASAPooling, CGIPooling, SAGPooling, TopKPooling, VIPooling, unpool

__all__ = ["ASAPooling", "CGIPooling", "PoolingOutput", "SAGPooling", "TopKPooling", "VIPooling", "unpool"]
