"""Ten steps of memory-efficient training methods, written from their formulas with PyTorch in double precision.

    python3 tests/oracle/memory_methods.py > tests/oracle/memory_methods.h
    python3 tests/oracle/memory_methods.py adagrad > tests/oracle/adagrad.h    # and SGD
    python3 tests/oracle/memory_methods.py muon > tests/oracle/muon.h

needs torch and numpy. The model is the dense one of tests/engine/toy_model.h without dropout: a table for the first
token, a linear layer with GELU, a linear classifier. The tests of the methods read the numbers.
"""

import math
import sys

import numpy as np
import torch

torch.set_default_dtype(torch.float64)

VOCABULARY, WIDTH, HIDDEN, LABELS = 24, 12, 16, 3
SEQUENCES, STEPS, SEED = 16, 10, 9
RATE, DECAY, CLIP = 0.02, 0.1, 0.5
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
M64, M32 = (1 << 64) - 1, (1 << 32) - 1


def philox(counter, key):
    """Philox4x32-10 of one block (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def mix64(x):
    """The finaliser of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def fnv1a(name):
    """The low half of the hash of 64 bits."""
    value = 14695981039346656037
    for letter in name.encode():
        value = ((value ^ letter) * 1099511628211) & M64
    return value & M32


def sketch(inputs, rank, layer, epoch, scale):
    """The normal projection of kernels/sketch.h, times a scale: 32 coin flips per entry, variance 1 / rank.

    Entries are products in single precision, as on every backend."""
    unit = np.float32(scale / math.sqrt(8 * rank))
    key = mix64((mix64(SEED) + epoch) & M64)
    p = np.zeros((inputs, rank))
    for row in range(inputs):
        for column in range(rank):
            word = philox((fnv1a(layer), row, column // 4, 0), (key & M32, key >> 32))[column % 4]
            p[row, column] = np.float32(bin(word).count("1") - 16) * unit
    return torch.tensor(p)


def start(shape, number):
    count = math.prod(shape)
    return torch.tensor([0.3 * math.sin(1.7 * i + number) for i in range(count)]).reshape(shape)


def batch(step):
    first = [int(np.random.RandomState(step * SEQUENCES + b).randint(0, 2**32, dtype=np.uint32)) for b in range(SEQUENCES)]
    ids = [x % VOCABULARY for x in first]
    return torch.tensor(ids), torch.tensor([i * 7 % 5 % LABELS for i in ids])


def model():
    shapes = {"table": (VOCABULARY, WIDTH), "up.weight": (WIDTH, HIDDEN), "up.bias": (HIDDEN,),
              "down.weight": (HIDDEN, LABELS), "down.bias": (LABELS,)}
    return {name: start(shape, k).requires_grad_() for k, (name, shape) in enumerate(shapes.items())}


def gradients(weights, step, restored=None):
    """Of the mean cross-entropy. restored(x) takes the place of the input of the layer `up` in the gradient of its weight."""
    ids, labels = batch(step)
    x = weights["table"][ids]
    pre = x @ weights["up.weight"] + weights["up.bias"]
    h = torch.nn.functional.gelu(pre)
    loss = torch.nn.functional.cross_entropy(h @ weights["down.weight"] + weights["down.bias"], labels)
    *found, d_pre = torch.autograd.grad(loss, [*weights.values(), pre])
    found = dict(zip(weights, found))
    if restored:
        found["up.weight"] = restored(x.detach()).T @ d_pre
    return found


def clipped(found):
    norm = math.sqrt(sum(float((g * g).sum()) for g in found.values()))
    return {name: g * (CLIP / norm if norm > CLIP else 1) for name, g in found.items()}


class Adam:
    """The direction of Adam, with its bias corrections."""

    def __init__(self):
        self.moments = {}

    def __call__(self, name, g, step):
        m, v = self.moments.get(name, (torch.zeros_like(g), torch.zeros_like(g)))
        m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
        self.moments[name] = m, v
        return m / (1 - BETA1 ** (step + 1)) / ((v / (1 - BETA2 ** (step + 1))).sqrt() + EPSILON)


def decays(name):
    return name in ("table", "up.weight", "down.weight")


def train(project, direction, restored=None):
    """`direction` is that of the method; project(step, name) is None, or P and alpha P of a parameter whose gradient is in a subspace."""
    weights = model()
    for step in range(STEPS):
        chosen = {name: project(step, name) for name in weights}
        full = gradients(weights, step, restored)
        found = clipped({name: g if chosen[name] is None else chosen[name][0].T @ g for name, g in full.items()})
        with torch.no_grad():
            for name, w in weights.items():
                update = direction(name, found[name], step)
                if chosen[name] is not None:
                    update = chosen[name][1] @ update
                w -= RATE * ((DECAY if decays(name) else 0) * w + update)
    return weights


def compact(step, name):
    """CompAct (arXiv 2410.15352): rank 5, a new projection every 4 steps, alpha 0.7, moments kept."""
    return [sketch(WIDTH, 5, "up", step // 4, scale) for scale in (1, 0.7)] if name == "up.weight" else None


class Velora:
    """arXiv 2405.17991: inputs in groups of 4, each kept as its product with the mean of the first batch's groups, of length 1.

    The gradient of the weight is 1.5 times that of the restored inputs."""

    def __init__(self):
        self.v = None

    def __call__(self, x):
        groups = x.reshape(-1, 4)
        if self.v is None:
            mean = groups.mean(0)
            self.v = mean / mean.norm()
        return 1.5 * torch.outer(groups @ self.v, self.v).reshape(x.shape)


class ApolloMini:
    """arXiv 2412.05270: rank 1, the smaller side projected, strength sqrt(128), growth of a step at most 1.01."""

    def __init__(self):
        self.adam, self.last = Adam(), {}

    def __call__(self, name, g, step):
        if name != "up.weight":
            return self.adam(name, g, step)
        rows, columns = g.shape
        p = sketch(min(rows, columns), 1, name, step // 200, 1)
        projected = (p.T @ g if rows <= columns else g @ p).flatten()
        direction = self.adam(name, projected, step)
        update = math.sqrt(128) * direction.norm() / (projected.norm() + 1e-8) * g
        norm, last = float(update.norm()), self.last.get(name, 0)
        if last > 0 and norm > 1.01 * last:
            update, norm = update * (1.01 * last / norm), 1.01 * last
        self.last[name] = norm
        return update


class Muon:
    """Momentum of 0.95 with Nesterov's step, by its singular values s: each of s / |s| becomes a polynomial of itself, five
    times (Jordan et al. 2024). The update has the size of Adam's (arXiv 2502.16982)."""

    def __init__(self):
        self.adam, self.momentum = Adam(), {}

    def __call__(self, name, g, step):
        if name not in ("up.weight", "down.weight"):
            return self.adam(name, g, step)
        m = 0.95 * self.momentum.get(name, torch.zeros_like(g)) + 0.05 * g
        self.momentum[name] = m
        u, s, v = torch.linalg.svd(0.95 * m + 0.05 * g, full_matrices=False)
        s = s / s.norm()
        for _ in range(5):
            s = float(np.float32(3.4445)) * s - float(np.float32(4.775)) * s**3 + float(np.float32(2.0315)) * s**5
        return 0.2 * math.sqrt(max(g.shape)) * (u * s) @ v


class Galore:
    """arXiv 2403.03507: Adam on P^T G for the first singular vectors P of the gradient's smaller side, new ones every 4
    steps, moments kept, alpha 0.7. A singular vector has no sign of its own: it is that which turns least from the old one."""

    def __init__(self, name, rank, inner=Adam, signs=1):
        self.adam, self.inner, self.name, self.rank, self.p = Adam(), inner(), name, rank, None
        self.signs = torch.tensor(signs)

    def __call__(self, name, g, step):
        if name != self.name:
            return self.adam(name, g, step)
        left = g.shape[0] <= g.shape[1]
        if step % 4 == 0:
            u, _, vt = torch.linalg.svd(g)
            p = u[:, :self.rank] if left else vt[:self.rank].T
            self.p = p * self.signs if self.p is None else p * torch.where((p * self.p).sum(0) < 0, -1.0, 1.0)
        n = self.inner(name, self.p.T @ g if left else g @ self.p, step)
        return 0.7 * (self.p @ n if left else n @ self.p.T)


def code_book(signed):
    """The dynamic code book of arXiv 2110.02861: seven decades below 1; decade i has 2^i intervals (signed; 2^(i+1)
    unsigned), each represented by its middle, and beside them 0 and 1."""
    values = [0.0, 1.0]
    for i in range(7):
        count = 2**i if signed else 2**(i + 1)
        middles = [10.0**(i - 6) * (0.1 + 0.9 * (k + 0.5) / count) for k in range(count)]
        values += middles + ([-x for x in middles] if signed else [])
    assert len(values) == 256
    return torch.tensor(sorted(values))


def coded(x, book):
    """x through the nearest code of x / largest |x| and back. A negative number does not become 0."""
    largest = float(x.abs().max())
    nearest = (x.flatten()[:, None] / largest - book[None, :]).abs().argmin(1).reshape(x.shape)
    value = book[nearest]
    return torch.where((x < 0) & (value == 0), -book[book > 0].min(), value) * largest


class Adam8(Adam):
    """Adam whose moments are stored in 8 bits. A tensor has one block, of at most 256 elements."""

    BOOKS = code_book(True), code_book(False)

    def __call__(self, name, g, step):
        update = super().__call__(name, g, step)
        self.moments[name] = tuple(coded(x, book) for x, book in zip(self.moments[name], self.BOOKS))
        return update


def train_by(optimizer):
    """optimizer(matrices, others) is one of PyTorch's for two lists of parameters: those with and without weight decay."""
    weights = model()
    groups = [[w for name, w in weights.items() if decays(name) == of] for of in (True, False)]
    step_of = optimizer(*groups)
    for step in range(STEPS):
        for name, g in clipped(gradients(weights, step)).items():
            weights[name].grad = g
        step_of.step()
    return weights


class DecoupledAdagrad(torch.optim.Adagrad):
    """PyTorch's adds weight decay to the gradient; here it is apart from it, as in AdamW."""

    def __init__(self, matrices, others):
        super().__init__([*matrices, *others], lr=RATE)
        self.matrices = matrices

    def step(self):
        with torch.no_grad():
            for w in self.matrices:
                w *= 1 - RATE * DECAY
        super().step()


def sgd(matrices, others):
    return torch.optim.SGD([{"params": matrices, "weight_decay": DECAY}, {"params": others}], lr=RATE)


def train_at_once(update):
    """`up.weight` has W <- update(W, G, step); the others have Adam without clipping."""
    weights, adam = model(), Adam()
    for step in range(STEPS):
        found = gradients(weights, step)
        with torch.no_grad():
            for name, w in weights.items():
                if name == "up.weight":
                    w.copy_(update(w, found[name], step))
                else:
                    w -= RATE * ((DECAY if decays(name) else 0) * w + adam(name, found[name], step))
    return weights


def lomo(w, g, step):
    """arXiv 2306.09782 with half the rate of the others and the norm of this gradient limited to 0.05."""
    return (1 - RATE / 2 * DECAY) * w - RATE / 2 * min(1, 0.05 / float(g.norm())) * g


class AdaLomo:
    """arXiv 2310.10195: Adafactor's means of squares over rows and columns, size of an update at most 1, no momentum. Half the
    rate of the others."""

    def __init__(self):
        self.row = self.column = 0

    def __call__(self, w, g, step):
        old, square = 1 - (step + 1) ** -0.8, g * g + 1e-30
        self.row = old * self.row + (1 - old) * square.mean(1)
        self.column = old * self.column + (1 - old) * square.mean(0)
        u = g * (self.row / self.row.mean()).rsqrt()[:, None] * self.column.rsqrt()[None, :]
        u = u / max(1, float((u * u).mean().sqrt()))
        rate = RATE / 2 * max(1e-3, float((w * w).mean().sqrt()))
        return (1 - rate * DECAY) * w - rate * u


def show(name, weights, digits=15, across=5):
    numbers = [float(x) for key in ("up.weight", "down.weight") for x in weights[key].detach().flatten()]
    print(f"// {len(numbers)} numbers: up.weight [{WIDTH}, {HIDDEN}], down.weight [{HIDDEN}, {LABELS}].")
    print(f"inline constexpr double {name}[] = {{")
    for i in range(0, len(numbers), across):
        print("    " + " ".join(f"{x:.{digits}g}," for x in numbers[i:i + across]))
    print("};\n")


print("// Weights after ten steps, made by tests/oracle/memory_methods.py.")
print("// clang-format off")
print("#pragma once\n\nnamespace oracle {\n")
if sys.argv[1:] == ["adagrad"]:
    show("adagrad", train_by(DecoupledAdagrad))
    show("sgd", train_by(sgd))
elif sys.argv[1:] == ["muon"]:
    show("muon", train(lambda step, name: None, Muon()))
else:
    show("adamw", train(lambda step, name: None, Adam()))
    show("compact", train(compact, Adam()))
    show("velora", train(lambda step, name: None, Adam(), Velora()))
    show("apollo_mini", train(lambda step, name: None, ApolloMini()))
    show("galore_rows", train(lambda step, name: None, Galore("up.weight", 2)))
    show("galore_columns", train(lambda step, name: None, Galore("down.weight", 2)))
    # The code book of first moments is not symmetric, so the sign of the singular vector counts.
    show("galore8bit_positive", train(lambda step, name: None, Galore("up.weight", 1, Adam8, [1])), 8, 8)
    show("galore8bit_negative", train(lambda step, name: None, Galore("up.weight", 1, Adam8, [-1])), 8, 8)
    show("lomo", train_at_once(lomo))
    show("adalomo", train_at_once(AdaLomo()))
print("}  // namespace oracle")
