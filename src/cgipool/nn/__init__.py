"""The pooling methods as layers with PyG's interface: change one import in a model written for PyG."""

from cgipool.nn.base import PoolingOutput
from cgipool.nn.layers import ASAPooling, CGIPooling, SAGPooling, TopKPooling, VIPooling, unpool

__all__ = ["ASAPooling", "CGIPooling", "PoolingOutput", "SAGPooling", "TopKPooling", "VIPooling", "unpool"]
