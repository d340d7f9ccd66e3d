"""PyTorch's contenders of bench_races.py: minibatches of sparse rows by EmbeddingBag, Adam or SGD with momentum.

"linear" is one weight for each feature and class, which is the model of logistic regression; "embeddings" is a sum of
embeddings, DIM long, and a linear layer. Over that: the full softmax, `torch.nn.functional.linear_cross_entropy` in
chunks, a softmax of SAMPLED classes drawn by their frequency, once for a batch, with the correction by log q (Bengio &
Senecal 2008), and `nn.AdaptiveLogSoftmaxWithLoss` with classes in order of their frequency. What PyTorch initialises
and what its optimisers default to is left as it is; the linear model begins at zero.
"""

import numpy as np
import quality_models as quality
import torch
from race_passes import InPasses
from scipy import sparse
from torch import nn
from torch.nn import functional

DIM, SAMPLED = 192, 1_024
BATCH, BATCH_OF_MANY, MANY = 128, 512, 50_000  # rows of a batch; of more than so many rows
CHUNK = 500


class Torch(InPasses, quality.Contender):
    """A linear softmax by Adam."""

    package, module = "torch", "torch"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # PyTorch loads much of itself at the first step, which takes a second: outside the clock, as imports are.
        parameter = nn.Parameter(torch.zeros(1))
        parameter.grad = torch.zeros(1)
        torch.optim.Adam([parameter]).step()

    def begin(self, X, y):
        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        self.rng = np.random.default_rng(self.seed)
        self.D, self.K = X.shape[1], int(y.max()) + 1
        self.batch = BATCH_OF_MANY if X.shape[0] > MANY else BATCH
        # Gradients as long lists of rows cost more than dense ones where a batch has most of the features.
        self.few = sparse.issparse(X) and self.batch * X.nnz / X.shape[0] < self.D
        self.build(X, y)

    def build(self, X, y):
        self.bag = self.first_layer(X, self.K, few=False)
        nn.init.zeros_(self.bag.weight)
        self.bias = nn.Parameter(torch.zeros(self.K))
        self.optimisers = [self.descent([self.bag.weight, self.bias])]

    def first_layer(self, X, width, *, few):
        if sparse.issparse(X):
            return nn.EmbeddingBag(self.D, width, mode="sum", sparse=few)
        return nn.Linear(self.D, width, bias=False)

    def descent(self, parameters):
        return torch.optim.Adam(parameters, lr=self.settings["lr"])

    def inputs(self, X, at):
        if not sparse.issparse(X):
            return (torch.from_numpy(np.ascontiguousarray(X[at])),)
        x = X[at]
        features, values = torch.from_numpy(x.indices.astype(np.int64)), torch.from_numpy(x.data)
        return features, torch.from_numpy(x.indptr[:-1].astype(np.int64)), values

    def sums(self, X, at):
        if not sparse.issparse(X):
            return self.bag(*self.inputs(X, at))
        features, offsets, values = self.inputs(X, at)
        return self.bag(features, offsets, per_sample_weights=values)

    def loss(self, sums, y):
        return functional.cross_entropy(sums + self.bias, y)

    def one_pass(self, X, y):
        order = self.rng.permutation(X.shape[0])
        for start in range(0, len(order), self.batch):
            at = order[start : start + self.batch]
            for one in self.optimisers:
                one.zero_grad()
            self.loss(self.sums(X, at), torch.from_numpy(y[at])).backward()
            for one in self.optimisers:
                one.step()

    def save(self):
        path = self.folder / "model.pt"
        torch.save(self.weights(), path)
        return path

    def weights(self):
        return [self.bag.weight.detach(), self.bias.detach()]

    def log_probabilities(self, sums):
        return functional.log_softmax(sums + self.bias, dim=1)

    def of_slices(self, X, ask):
        """What `ask` answers of the log-probabilities of slices of rows."""
        n, found = X.shape[0], []
        with torch.no_grad():
            for start in range(0, n, CHUNK):
                at = slice(start, min(start + CHUNK, n))
                found.append(ask(self.log_probabilities(self.sums(X, at)), at).numpy())
        return np.concatenate(found)

    def log_p(self, X, y):
        return self.of_slices(X, lambda logs, at: logs.gather(1, torch.from_numpy(y[at])[:, None])[:, 0])

    def top(self, X, k):
        return self.of_slices(X, lambda logs, at: logs.topk(k, dim=1).indices), None


class Momentum(Torch):
    """The linear softmax by SGD."""

    def descent(self, parameters):
        return torch.optim.SGD(parameters, lr=self.settings["lr"], momentum=0.9)


class Embeddings(Torch):
    """The full softmax of a linear layer over a sum of embeddings."""

    def build(self, X, y):
        self.bag = self.first_layer(X, DIM, few=self.few)
        self.head = nn.Linear(DIM, self.K)
        dense = list(self.head.parameters())
        self.optimisers = [self.descent(dense if self.few else [*dense, self.bag.weight])]
        if self.few:
            self.optimisers.append(self.descent_of_rows([self.bag.weight]))

    def descent_of_rows(self, parameters):
        return torch.optim.SparseAdam(parameters, lr=self.settings["lr"])

    def loss(self, sums, y):
        return functional.cross_entropy(self.head(sums), y)

    def weights(self):
        return [self.bag.weight.detach(), *(p.detach() for p in self.head.parameters())]

    def log_probabilities(self, sums):
        return functional.log_softmax(self.head(sums), dim=1)


class Chunked(Embeddings):
    """The same by one function, which keeps no scores of a whole batch."""

    def loss(self, sums, y):
        options = nn.LinearCrossEntropyOptions()
        return functional.linear_cross_entropy(sums, self.head.weight, y, linear_bias=self.head.bias, options=options)


class Sampled(Embeddings):
    """Scores of the batch's own classes and of some drawn ones."""

    def build(self, X, y):
        super().build(X, y)
        q = torch.from_numpy(np.bincount(y, minlength=self.K) / len(y))
        self.q, self.n = q, min(SAMPLED, self.K // 2)
        self.log_expected = torch.log(self.n * q).float()
        # Its rows get gradients only where their class is seen.
        self.W, self.b = nn.Embedding(self.K, DIM, sparse=True), nn.Embedding(self.K, 1, sparse=True)
        nn.init.uniform_(self.W.weight, -(DIM**-0.5), DIM**-0.5)  # as nn.Linear
        nn.init.zeros_(self.b.weight)
        self.optimisers = [self.descent_of_rows([self.W.weight, self.b.weight])]
        self.optimisers.append((self.descent_of_rows if self.few else self.descent)([self.bag.weight]))

    def loss(self, sums, y):
        drawn = torch.multinomial(self.q, self.n, replacement=True)
        both = torch.cat([y, drawn])
        W, b = self.W(both), self.b(both)[:, 0] - self.log_expected[both]
        own = (sums * W[: len(y)]).sum(dim=1) + b[: len(y)]
        others = sums @ W[len(y) :].T + b[len(y) :]
        others = others.masked_fill(drawn[None, :] == y[:, None], -torch.inf)
        return (torch.logsumexp(torch.cat([own[:, None], others], dim=1), dim=1) - own).mean()

    def weights(self):
        return [p.weight.detach() for p in (self.bag, self.W, self.b)]

    def log_probabilities(self, sums):
        return functional.log_softmax(sums @ self.W.weight.T + self.b.weight[:, 0], dim=1)


class Adaptive(Embeddings):
    """Frequent classes in a head, the others in two tails whose embeddings are shorter."""

    def build(self, X, y):
        super().build(X, y)
        order = np.argsort(-np.bincount(y, minlength=self.K), kind="stable")
        self.rank = torch.from_numpy(np.argsort(order))
        cutoffs = [max(1, self.K // 20), max(2, self.K // 5)]
        self.head = nn.AdaptiveLogSoftmaxWithLoss(DIM, self.K, cutoffs)
        dense = list(self.head.parameters())
        self.optimisers[0] = self.descent(dense if self.few else [*dense, self.bag.weight])

    def loss(self, sums, y):
        return self.head(sums, self.rank[y]).loss

    def log_probabilities(self, sums):
        return self.head.log_prob(sums)[:, self.rank]


KINDS = {
    "PyTorch linear, Adam": Torch,
    "PyTorch linear, SGD": Momentum,
    "PyTorch embeddings, full": Embeddings,
    "PyTorch embeddings, linear_cross_entropy": Chunked,
    "PyTorch embeddings, sampled": Sampled,
    "PyTorch embeddings, adaptive": Adaptive,
}
