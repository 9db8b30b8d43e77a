#!/usr/bin/env python3
"""Times one training step of the six-encoder transformer in plain PyTorch, for bench_vs_pytorch.sh and check_gpu.sh.

The model is that of the preset mnli-6enc: post-LN encoder, 768 wide, 12 heads, feed-forward 3072, learned positions,
two token types, a 768 -> 768 tanh head and 3 classes. `--form tt` has every linear layer but the last in tensor-train
form with merged left and right factors (A and B are multiplied out once per step by autograd, y = (x A) B + b, never
the dense weight) and the word table in TTM form over distinct ids. Rank diagonals are masked as in CoMERA.

`--work linear` times one 768 -> 3072 layer instead of the model. `lookup` times one 30522 x 768 table in TTM form
without CoMERA's optimisation (each id's slices of the cores are gathered and multiplied from left to right; equal ids
are computed separately). `epoch` times steps over batches in pinned memory. `rates` measures how fast this machine
copies and multiplies matrices.
All sequences are full, so attention has no mask and PyTorch may choose its fastest kernel (`--mask` gives it one).
On a GPU (`--device cuda`) memory is the peak that PyTorch's allocator reserved; steady_peak_bytes is that of the timed
steps, without the first one, in which GaLore computes its singular vectors, and steady_device_bytes what the driver has
less since before the model, as comera measures itself: with code and workspaces of the libraries. `--compile` compiles
the model and replays the whole step as one CUDA graph; if that cannot be recorded, it uses mode="reduce-overhead"
("graph" in the output names the mode). `--optimizer galore` projects the gradients of the dense layers (rank 128) as in
GaLore (arXiv 2403.03507, algorithm 2).

Prints one line of JSON with the keys of `comera bench`, and base_bytes: resident memory of Python and torch at start.
"""

import argparse
import json
import math
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from energy import Energy

TAU = 1e-2
ATTENTION = ([12, 8, 8], [8, 8, 12])
UP = ([12, 8, 8], [12, 16, 16])
DOWN = ([16, 16, 12], [8, 8, 12])
TABLE_ROWS, TABLE_COLUMNS = [16, 20, 10, 10], [4, 4, 8, 6]


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Chain(nn.Module):
    """Cores with rank diagonals on the inner bonds, initialised as in CoMERA's code: every entry normal, the product
    with the given deviation."""

    def __init__(self, sizes, ranks, deviation):
        super().__init__()
        order = len(sizes)
        scale = deviation ** (1 / order)
        cores = [torch.randn(ranks[k], *sizes[k], ranks[k + 1]) * scale / math.sqrt(ranks[k + 1]) for k in range(order)]
        self.cores = nn.ParameterList(nn.Parameter(core) for core in cores)
        self.diagonals = nn.ParameterList(nn.Parameter(torch.ones(rank)) for rank in ranks[1:-1])

    def masked(self):
        cores = [core * F.threshold(d, TAU, 0.0) for core, d in zip(self.cores, self.diagonals)]
        return cores + [self.cores[-1]]


class TTLinear(nn.Module):
    def __init__(self, modes, rank):
        super().__init__()
        ins, outs = modes
        self.inputs, self.outputs, self.half = math.prod(ins), math.prod(outs), len(ins)
        sizes = ins + outs
        # The outer bonds of the chain have the size of their mode, the inner ones the rank.
        ranks = [1, ins[0]] + [rank] * (len(sizes) - 3) + [outs[-1], 1]
        self.chain = Chain([[s] for s in sizes], ranks, math.sqrt(1 / (self.inputs + self.outputs)))
        bound = 1 / math.sqrt(self.outputs)
        self.bias = nn.Parameter(torch.empty(self.outputs).uniform_(-bound, bound))

    def halves(self):
        cores = self.chain.masked()
        left, right = cores[0], cores[-1]
        for core in cores[1:self.half]:
            left = left.reshape(-1, core.shape[0]) @ core.reshape(core.shape[0], -1)
        left = left.reshape(self.inputs, -1)
        right = right.reshape(right.shape[0], -1)
        for core in reversed(cores[self.half:-1]):
            right = (core.reshape(-1, core.shape[-1]) @ right).reshape(core.shape[0], -1)
        return left, right

    def forward(self, x):
        left, right = self.halves()
        return F.linear(x @ left, right.t(), self.bias)


class TTMTable(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.chain = Chain([[m, n] for m, n in zip(TABLE_ROWS, TABLE_COLUMNS)], [1, rank, rank, rank, 1], 1.0)

    def forward(self, ids):
        distinct, place = torch.unique(ids, return_inverse=True)
        f1, f2, f3, f4 = self.chain.masked()
        rank = f2.shape[-1]
        left = torch.einsum("ixa,ajyb->ijxyb", f1[0], f2).reshape(TABLE_ROWS[0] * TABLE_ROWS[1], -1, rank)
        right = torch.einsum("aixb,bjy->ijaxy", f3, f4[..., 0]).reshape(TABLE_ROWS[2] * TABLE_ROWS[3], rank, -1)
        inner = TABLE_ROWS[2] * TABLE_ROWS[3]
        rows = torch.bmm(left[distinct // inner], right[distinct % inner]).reshape(distinct.numel(), -1)
        return rows[place]


class UnfoldedTable(TTMTable):
    def forward(self, ids):
        rest, places = ids.reshape(-1), []
        for size in reversed(TABLE_ROWS):
            places.insert(0, rest % size)
            rest = rest // size
        rows = None
        for core, place in zip(self.chain.masked(), places):
            slices = core.index_select(1, place).transpose(0, 1)  # [K, left rank, columns, right rank]
            flat = slices.reshape(slices.shape[0], slices.shape[1], -1)
            rows = (flat if rows is None else torch.bmm(rows, flat)).reshape(slices.shape[0], -1, slices.shape[3])
        return rows.reshape(ids.numel(), -1)


def linear(form, modes, rank):
    return TTLinear(modes, rank) if form == "tt" else nn.Linear(math.prod(modes[0]), math.prod(modes[1]))


class Block(nn.Module):
    def __init__(self, form, rank, dropout):
        super().__init__()
        self.query, self.key, self.value, self.out = (linear(form, ATTENTION, rank) for _ in range(4))
        self.up, self.down = linear(form, UP, rank), linear(form, DOWN, rank)
        self.norm1, self.norm2 = nn.LayerNorm(768, eps=1e-9), nn.LayerNorm(768, eps=1e-9)
        self.dropout = dropout

    def attention(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, 12, 64).transpose(1, 2) for f in (self.query, self.key, self.value))
        if self.dropout == 0 or x.is_cuda:  # PyTorch's fused CPU kernel does not support dropout
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(q.dtype),
                                                   dropout_p=self.dropout)
        else:
            scores = (q @ k.transpose(-1, -2)) * 0.125
            weights = F.dropout(F.softmax(scores if mask is None else scores + mask, dim=-1), self.dropout)
            mixed = weights.to(v.dtype) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, mask):
        x = self.norm1(x + F.dropout(self.attention(x, mask), self.dropout))
        return self.norm2(x + F.dropout(self.down(F.gelu(self.up(x))), self.dropout))


class SixEncoders(nn.Module):
    def __init__(self, form, rank, embedding_rank, dropout):
        super().__init__()
        self.words = TTMTable(embedding_rank) if form == "tt" else nn.Embedding(30522, 768)
        self.positions, self.types = nn.Embedding(512, 768), nn.Embedding(2, 768)
        self.norm = nn.LayerNorm(768, eps=1e-9)
        self.blocks = nn.ModuleList(Block(form, rank, dropout) for _ in range(6))
        self.head, self.classes = linear(form, ATTENTION, rank), nn.Linear(768, 3)
        self.dropout = dropout

    def forward(self, ids, types, mask):
        x = self.words(ids) + self.positions.weight[:ids.shape[1]] + self.types(types)
        x = F.dropout(self.norm(x), self.dropout)
        for block in self.blocks:
            x = block(x, mask)
        return self.classes(F.dropout(torch.tanh(self.head(x[:, 0])), self.dropout))


class GaLore:
    """AdamW with the moments of large matrices in a subspace: the leading singular vectors of a gradient, computed
    again every `period` steps. A bench has fewer steps, so only its first one computes them."""

    def __init__(self, model, rank=128, scale=0.25, lr=1e-4, period=100_000):
        dense = [m.weight for m in model.modules() if isinstance(m, nn.Linear) and min(m.weight.shape) > rank]
        self.states, self.rank, self.scale, self.lr = [{"w": w} for w in dense], rank, scale, lr
        self.period, self.steps = period, 0
        chosen = {id(w) for w in dense}
        self.rest = make_optimizer([p for p in model.parameters() if id(p) not in chosen])

    def zero_grad(self, set_to_none=True):
        for state in self.states:
            state["w"].grad = None
        self.rest.zero_grad(set_to_none=set_to_none)

    @torch.no_grad()
    def step(self):
        self.rest.step()
        for state in self.states:
            w, g = state["w"], state["w"].grad.float()
            tall = g.shape[0] >= g.shape[1]
            if self.steps % self.period == 0:
                u, _, vh = torch.linalg.svd(g, full_matrices=False)
                state["p"] = vh[:self.rank].contiguous() if tall else u[:, :self.rank].contiguous()
            r = g @ state["p"].t() if tall else state["p"].t() @ g
            if "m" not in state:
                state["m"], state["v"] = torch.zeros_like(r), torch.zeros_like(r)
            state["m"].lerp_(r, 0.1)
            state["v"].mul_(0.999).addcmul_(r, r, value=0.001)
            first, second = 1 - 0.9 ** (self.steps + 1), 1 - 0.999 ** (self.steps + 1)
            n = state["m"] / first / ((state["v"] / second).sqrt() + 1e-6)
            w.add_(n @ state["p"] if tall else state["p"] @ n, alpha=-self.lr * self.scale)
        self.steps += 1


def make_optimizer(parameters):
    options = {"lr": 1e-4, "weight_decay": 0.0}
    parameters = list(parameters)
    try:
        return torch.optim.AdamW(parameters, fused=True, capturable=parameters[0].is_cuda, **options)
    except (RuntimeError, TypeError):  # the fused CPU version exists since 2.4
        return torch.optim.AdamW(parameters, **options)


def precision(arguments):
    # A graph cannot contain casts that were made outside of it.
    return torch.autocast(arguments.device, dtype=torch.bfloat16, enabled=arguments.dtype == "bf16",
                          cache_enabled=not arguments.compile)


def captured(step):
    """The step as one CUDA graph, after three steps on a second stream in which the libraries allocate their memory."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay():
        graph.replay()
    replay.step = step  # the graph does not own what it reads: parameters, moments, inputs
    return replay


def compiled(arguments, model, make_step):
    """make_step(forward) compiled, and the kind of graph that runs it."""
    if arguments.device == "cpu":
        return make_step(torch.compile(model)), "none"
    try:
        return captured(make_step(torch.compile(model))), "whole step"
    except RuntimeError as error:
        print(f"the whole step cannot be recorded: {error}", file=sys.stderr)
        torch.cuda.synchronize()
        return make_step(torch.compile(model, mode="reduce-overhead")), "reduce-overhead"


def count(module):
    return sum(p.numel() for name, p in module.named_parameters() if ".diagonals." not in name)


def model_step(arguments):
    model = SixEncoders(arguments.form, arguments.rank, arguments.embedding_rank, arguments.dropout)
    optimizer = GaLore(model) if arguments.optimizer == "galore" else make_optimizer(model.parameters())
    shape = (arguments.batch, arguments.seq)
    ids, types = torch.randint(1000, 30000, shape), torch.zeros(shape, dtype=torch.long)
    # Every sequence is full. With a mask, even one of zeros, PyTorch's flash attention is ruled out.
    mask = torch.zeros(arguments.batch, 1, 1, arguments.seq) if arguments.mask else None
    labels = torch.randint(0, 3, (arguments.batch,))

    def make_step(forward):
        # Gradients are allocated and freed within the step, so a graph of the step owns their memory.
        def step():
            with precision(arguments):
                loss = F.cross_entropy(forward(ids, types, mask).float(), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return step

    step, graph = compiled(arguments, model, make_step) if arguments.compile else (make_step(model), "none")
    if arguments.work == "epoch":
        step = fed(arguments, step, (ids, types, labels))
    return step, {"parameters": count(model), "graph": graph}


def fed(arguments, step, tensors):
    """The step, preceded by a copy of its batch from pinned memory."""
    batches = [[t.cpu().pin_memory() if t.is_cuda else t.clone() for t in tensors] for _ in range(64)]
    for batch in batches:
        batch[0].random_(1000, 30000)
        batch[2].random_(0, 3)
    turn = iter(range(sys.maxsize))

    def fed_step():
        for tensor, source in zip(tensors, batches[next(turn) % len(batches)]):
            tensor.copy_(source, non_blocking=True)
        step()
    return fed_step


def layer_step(arguments):
    on_table = arguments.work == "lookup"
    tokens = arguments.batch * arguments.seq
    layer = UnfoldedTable(arguments.embedding_rank) if on_table else linear(arguments.form, UP, arguments.rank)
    x = torch.randint(0, 30522, (tokens,)) if on_table else torch.randn(tokens, 768, requires_grad=True)
    dy = torch.randn(tokens, 768 if on_table else 3072)

    def step():
        with precision(arguments):
            y = layer(x)
        y.backward(dy.to(y.dtype))
        for tensor in [x, *layer.parameters()]:
            tensor.grad = None

    graph = "none"
    if arguments.compile and arguments.device == "cuda":  # a single layer is not compiled
        step, graph = captured(step), "whole step"
    return step, {"parameters": count(layer), "graph": graph}


def measure_rates(arguments):
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    size, elements = (8192, 1 << 27) if arguments.device == "cuda" else (512, 1 << 20)
    a, b, source = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype), torch.randn(elements)
    product, target = torch.empty_like(a), torch.empty_like(source)

    def best(call, repeats=4):
        seconds = []
        for _ in range(8):
            finish(arguments)
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            finish(arguments)
            seconds.append((time.perf_counter() - start) / repeats)
        return min(seconds)

    return {"peak_gflops": 2e-9 * size**3 / best(lambda: torch.mm(a, b, out=product)),
            "copy_gb_per_s": 8e-9 * elements / best(lambda: target.copy_(source))}


def finish(arguments):
    if arguments.device == "cuda":
        torch.cuda.synchronize()


def time_steps(arguments, step):
    """Times of single steps, each waited for: as many as requested, and on a GPU for at least a second, because its
    energy counter is slow. The steps of an epoch are timed in groups, so that the host prepares the next step while the
    GPU computes."""
    group = arguments.repetitions if arguments.work == "epoch" else 1
    for _ in range(arguments.warmup):
        step()
    finish(arguments)
    warm_peak = start_of_steady_memory() if arguments.device == "cuda" else 0
    uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None) if arguments.device == "cuda" else None
    energy, times, begin = Energy(arguments.device, uuid), [], time.perf_counter()
    least_seconds = 1 if arguments.device == "cuda" else 0
    while len(times) * group < arguments.repetitions or time.perf_counter() - begin < least_seconds:
        start = time.perf_counter()
        for _ in range(group):
            step()
        finish(arguments)
        times.append(1e3 * (time.perf_counter() - start) / group)
    joules = energy.joules()
    return warm_peak, {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times),
            "joules": None if joules is None else joules / (len(times) * group)}


def start_of_steady_memory():
    """The peak so far. What only the first steps needed goes back to the driver."""
    peak = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return peak


def memory_of(on_card, base, free_before, warm_peak):
    """On a GPU the steady peak is that of the timed steps. GaLore's singular vectors come in the first step and count
    for the peak alone."""
    if not on_card:
        return {"peak_bytes": peak_bytes() - base, "base_bytes": base}
    steady = torch.cuda.max_memory_reserved()
    return {"peak_bytes": max(steady, warm_peak) - base, "steady_peak_bytes": steady - base, "base_bytes": base,
            "steady_device_bytes": free_before - torch.cuda.mem_get_info()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=["step", "epoch", "linear", "lookup", "rates"], default="step")
    parser.add_argument("--form", choices=["dense", "tt"], default="dense")
    parser.add_argument("--rank", type=int, default=30)
    parser.add_argument("--embedding-rank", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--mask", action="store_true", help="give attention a mask of zeros")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--optimizer", choices=["adamw", "galore"], default="adamw")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    torch.set_default_device(arguments.device)
    on_card = arguments.device == "cuda"
    torch.ones(8, 8) @ torch.ones(8, 8)  # loads the matrix library before the base is measured
    base = torch.cuda.memory_reserved() if on_card else resident_bytes()
    free_before = torch.cuda.mem_get_info()[0] if on_card else 0
    answer = {
        "program": f"torch {torch.__version__}", "work": arguments.work,
        "form": "ttm" if arguments.work == "lookup" else arguments.form, "dtype": arguments.dtype,
        "dropout": arguments.dropout, "batch": arguments.batch, "seq": arguments.seq,
        "threads": torch.get_num_threads(), "device": arguments.device, "compile": arguments.compile,
        "optimizer": arguments.optimizer}
    if arguments.work == "rates":
        answer.update(measure_rates(arguments))
    else:
        step, facts = (model_step if arguments.work in ("step", "epoch") else layer_step)(arguments)
        warm_peak, times = time_steps(arguments, step)
        answer.update(facts, **times, **memory_of(on_card, base, free_before, warm_peak))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
