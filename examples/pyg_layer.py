"""CGIPooling in a PyG model: it replaces SAGPooling and adds an auxiliary loss."""

import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, global_mean_pool

from cgipool import load_dataset
from cgipool.nn import CGIPooling

graphs = load_dataset("motifs").subset(range(0, 1000, 4))
data = graphs.to_pyg()


class Net(torch.nn.Module):
    """One convolution, one pool, one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GraphConv(data[0].num_features, 32)
        self.pool = CGIPooling(32, ratio=0.8)  # was: SAGPooling(32, ratio=0.8)
        self.linear = torch.nn.Linear(32, graphs.n_classes)

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index).relu()
        pooled = self.pool(x, edge_index, batch=batch)
        x, edge_index, _, batch, _, _ = pooled
        return self.linear(global_mean_pool(x, batch)), pooled.aux_loss


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(5):
    total = 0.0
    for batch in DataLoader(data, batch_size=64, shuffle=True):
        logits, aux = net(batch.x, batch.edge_index, batch.batch)
        loss = F.cross_entropy(logits, batch.y) + 0.001 * aux
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * batch.num_graphs
    print(f"epoch {epoch + 1}: loss {total / len(data):.3f}")
