"""Models of comera in PyTorch: weights in tensor-train or low-rank form and on grids as modules.

    import comera_tt
    model = comera_tt.load("small")             # the class of transformers that config.json names
    ...                                         # use it, train it
    comera_tt.save(model, "small", "tuned")     # a folder that comera reads

Needs torch and safetensors; load() also needs transformers, replace() takes any module whose names are those of the
folder's tensors. Cores, diagonals, exact rows and corrections are parameters; codes on grids, of cores too, are buffers
and do not learn. The format is described in lib/io/FORMAT.md of comera.
"""
import json
import math
import os
import shutil

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

__all__ = ["load", "replace", "save", "TableHead", "TTLinear", "TTMEmbedding"]

BLOCK = 32  # numbers of a block on a grid
CODE_BYTES = {"q8_0": 32, "q4_1": 16, "q4_0": 16, "q3_0": 12, "q2_0": 8}  # of a block
ACTIVATIONS = {"silu": functional.silu, "gelu": functional.gelu, "tanh": torch.tanh}


def _halves(blocks, at):
    return blocks[..., at:at + 2].contiguous().view(torch.float16).float()


def _spread(data, bits):
    """Codes of `bits` bits, the lowest first, of each byte."""
    shifts = torch.arange(0, 8, bits, device=data.device)
    return (data.unsqueeze(-1).int() >> shifts & (1 << bits) - 1).flatten(-2)


def _numbers_of_groups(groups, codes):
    """Bytes [..., groups, bytes of a group] as float numbers [..., numbers]."""
    step = 4 if codes == "q4_1" else 2
    scale = _halves(groups, 0).unsqueeze(-2)
    data = groups[..., step:].unflatten(-1, (-1, CODE_BYTES[codes]))
    if codes == "q8_0":
        numbers = scale * data.contiguous().view(torch.int8).float()
    elif codes in ("q4_0", "q4_1"):
        data = torch.cat((data & 15, data >> 4), -1).float()
        numbers = scale * (data - 8) if codes == "q4_0" else scale * data + _halves(groups, 2).unsqueeze(-2)
    elif codes == "q3_0":
        bits = _spread(data, 1).unflatten(-1, (BLOCK, 3))
        numbers = scale * (bits[..., 0] + 2 * bits[..., 1] + 4 * bits[..., 2] - 3.5)
    else:
        numbers = scale * (_spread(data, 2) - 1.5)
    return numbers.flatten(-3)


def numbers_of(lines, grid, count):
    """Bytes [..., bytes of a line] as float numbers [..., count]. The last group of a line may have fewer blocks."""
    codes, _, group = grid.partition("g")
    size = (4 if codes == "q4_1" else 2) + int(group or BLOCK) // BLOCK * CODE_BYTES[codes]
    whole = lines.shape[-1] // size * size
    parts = []
    if whole > 0:
        parts.append(_numbers_of_groups(lines[..., :whole].unflatten(-1, (-1, size)), codes))
    if whole < lines.shape[-1]:
        parts.append(_numbers_of_groups(lines[..., whole:].unsqueeze(-2), codes))
    return torch.cat(parts, -1)[..., :count]


class _Weight(nn.Module):
    """The parts of one weight: cores and what belongs to them, and numbers on a grid."""

    def __init__(self, entry, threshold, tensors):
        super().__init__()
        self.entry, self.threshold = entry, threshold
        self.stored = {}  # suffix of the tensor's name: attribute
        for suffix, tensor in tensors.items():
            attribute = suffix.replace(".", "_")
            self.stored[suffix] = attribute
            if tensor.is_floating_point():
                self.register_parameter(attribute, nn.Parameter(tensor.clone()))
            else:
                self.register_buffer(attribute, tensor.clone())

    def part(self, suffix):
        attribute = self.stored.get(suffix)
        return None if attribute is None else getattr(self, attribute)

    def _core(self, k):
        core = self.part(f"tt.{k}")
        if core is None or "cores" not in self.entry:
            return core
        before, after = self.entry["ranks"][k:k + 2]
        if self.entry["kind"] == "tt":
            modes = [(self.entry["in_modes"] + self.entry["out_modes"])[k]]
        else:
            modes = [self.entry["row_modes"][k], self.entry["column_modes"][k]]
        shape = (before, *modes, after)
        return numbers_of(core, self.entry["cores"], math.prod(shape)).view(shape)

    def cores(self):
        """The cores with their diagonals; none for the zero matrix."""
        cores = []
        for k in range(len(self.entry["ranks"]) - 1):
            core = self._core(k)
            if core is None:
                return []
            if k == len(self.entry["ranks"]) - 2 and self.entry.get("gauge"):
                core = self._with_identity(core)
            diagonal = self.part(f"rank.{k}")
            if diagonal is not None:
                if self.threshold is not None:
                    diagonal = torch.where(diagonal > self.threshold, diagonal, 0)
                core = core * diagonal
            cores.append(core)
        return cores

    def _with_identity(self, core):
        rank, out = core.shape[0], self.entry["out_modes"][0]
        gauge = self.part("gauge").long()
        others = torch.ones(out, dtype=torch.bool, device=core.device)
        others[gauge] = False
        whole = core.new_zeros(rank, out)
        whole = whole.index_copy(1, others.nonzero().flatten(), core.reshape(rank, -1))
        return whole.index_copy(1, gauge, torch.eye(rank, dtype=core.dtype, device=core.device)).unsqueeze(-1)

    def tensors(self):
        return {suffix: self.part(suffix).detach() for suffix in self.stored}


def _merged(cores):
    """Cores [r, n, s] multiplied to [first r, all n, last s]."""
    product = cores[0]
    for core in cores[1:]:
        product = torch.einsum("anr,rmb->anmb", product, core).flatten(1, 2)
    return product


class TTLinear(_Weight):
    """y = x W + b with W = left right in tensor-train or low-rank form, plus numbers on a grid if it has them."""

    def __init__(self, entry, threshold, tensors, bias):
        super().__init__(entry, threshold, tensors)
        out_in = entry["shape"][::-1] if entry.get("conv1d") else entry["shape"]
        self.out_features, self.in_features = out_in
        self.bias = bias

    def factors(self):
        """left [in, R] and right [R, out], or None."""
        cores = self.cores()
        if not cores:
            return None
        middle = len(self.entry["in_modes"])
        return _merged(cores[:middle])[0], _merged(cores[middle:])[:, :, 0]

    def forward(self, x):
        y = None
        if "base" in self.entry:
            base = numbers_of(self.base, self.entry["base"], self.in_features).to(x.dtype)
            y = functional.linear(x, base)
        factors = self.factors()
        if factors is not None:
            order = self.part("order")
            between = ACTIVATIONS.get(self.entry.get("between"), lambda h: h)
            h = between((x if order is None else x[..., order.long()]) @ factors[0].to(x.dtype))
            low = h @ factors[1].to(x.dtype)
            y = low if y is None else y + low
        if y is None:
            y = x.new_zeros(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias


class TTMEmbedding(_Weight):
    """A table in tensor-train form, plus numbers on a grid if it has them. Only the rows of the ids are made."""

    def __init__(self, entry, threshold, tensors, scale=1.0):
        super().__init__(entry, threshold, tensors)
        self.num_embeddings, self.embedding_dim = entry["shape"]
        self.scale = scale  # of tables whose class multiplies its rows

    def rows(self, ids):
        flat = ids.flatten()
        rows = None
        if "base" in self.entry:
            rows = numbers_of(self.base[flat], self.entry["base"], self.embedding_dim)
        cores = self.cores()
        if cores:
            low = self._chain_rows(cores, flat)
            rows = low if rows is None else rows + low.to(rows.dtype)
        if rows is None:
            rows = torch.zeros(len(flat), self.embedding_dim, device=ids.device)
        exact = self.part("exact.ids")
        if exact is not None:
            at = torch.searchsorted(exact, flat).clamp(max=len(exact) - 1)
            found = (exact[at] == flat).unsqueeze(-1)
            rows = torch.where(found, self.part("exact.rows")[at].to(rows.dtype), rows)
        return rows.unflatten(0, ids.shape) if ids.dim() else rows[0]

    def _chain_rows(self, cores, ids):
        modes = self.entry["row_modes"]
        product = None
        for k, core in enumerate(cores):
            digit = ids // math.prod(modes[k + 1:]) % modes[k]
            taken = core[:, digit].transpose(0, 1)  # [ids, r, n, s]
            product = taken if product is None else torch.einsum("tanr,trmb->tanmb", product, taken).flatten(2, 3)
        return product[:, 0, :, 0]

    def forward(self, ids):
        return self.rows(ids) * self.scale


class TableHead(nn.Module):
    """A head with a table, of its own or that of the words: y = x E^T + b, some rows at a time."""

    ROWS = 4096

    def __init__(self, table, bias, own=False):
        super().__init__()
        self.table = nn.ModuleList([table]) if own else [table]  # a plain list: the table belongs to another module
        self.bias = bias
        self.out_features, self.in_features = table.num_embeddings, table.embedding_dim

    def forward(self, x):
        table = self.table[0]
        parts = []
        for first in range(0, table.num_embeddings, self.ROWS):
            ids = torch.arange(first, min(first + self.ROWS, table.num_embeddings), device=x.device)
            parts.append(functional.linear(x, table.rows(ids).to(x.dtype)))
        y = torch.cat(parts, -1)
        return y if self.bias is None else y + self.bias

    def tensors(self):
        return self.table[0].tensors()


def _transformer_folder(folder):
    path = os.path.join(folder, "modules.json")
    if not os.path.exists(path):
        return folder
    with open(path, encoding="utf-8") as file:
        return next((os.path.join(folder, module["path"]) for module in json.load(file)
                     if module["type"].endswith("Transformer")), folder)


def _check_version(block, folder):
    version = block.get("version", 1)
    if version > 2:
        raise ValueError(f"{folder}: format version {version} is newer than this file; use a newer comera_tt.py")
    grids = [entry.get(part, "") for entry in block.get("tensors", {}).values() for part in ("base", "cores")]
    if version < 2 and any(grid.startswith("q3_0") for grid in grids):
        raise ValueError(f"{folder}: weights of 3 bits are stored in another order since version 2; "
                         "compress the dense model again")


def _read(folder):
    """config.json, and all tensors of the folder by name."""
    folder = _transformer_folder(folder)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    _check_version(config.get("comera", {}), folder)
    index = os.path.join(folder, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
    tensors = {}
    for name in names:
        with safe_open(os.path.join(folder, name), "pt") as file:
            tensors.update({key: file.get_tensor(key) for key in file.keys()})
    return config, tensors


def _is_part(suffix):
    head, _, number = suffix.partition(".")
    return (suffix in ("order", "gauge", "base", "exact.ids", "exact.rows")
            or (head in ("tt", "rank") and number.isdigit()))


def _parts(name, tensors):
    return {key[len(name) + 1:]: tensor for key, tensor in tensors.items()
            if key.startswith(name + ".") and _is_part(key[len(name) + 1:])}


def _names_in(model, tensors, entries):
    """The folder's names as names of the model: the class may add or drop the prefix of its base model."""
    own = set(dict(model.named_parameters(remove_duplicate=False))) | set(dict(model.named_modules()))
    prefix = getattr(model, "base_model_prefix", "") + "."
    names = list(tensors) + list(entries)
    candidates = (lambda n: n, lambda n: prefix + n, lambda n: n.removeprefix(prefix))
    return max(candidates, key=lambda rename: sum(rename(name) in own for name in names))


def replace(model, folder, dtype=torch.float32):
    """Puts the folder's weights into `model`, modules of this file in place of its compressed weights. Returns it.

    Cores, diagonals and exact rows get `dtype`; other parameters keep that of the model.
    """
    config, tensors = _read(folder)
    block = config.get("comera", {})
    entries = block.get("tensors", {})
    rename = _names_in(model, tensors, entries)
    tied = {}  # id of a replaced module's weight: the module in its place
    used = set()
    for name, entry in entries.items():
        parts = {suffix: tensor.to(dtype) if tensor.is_floating_point() else tensor
                 for suffix, tensor in _parts(name, tensors).items()}
        used.update(f"{name}.{suffix}" for suffix in parts)
        path = rename(name)
        old = model.get_submodule(path)
        if entry["kind"] == "tt":
            new = TTLinear(entry, block.get("threshold"), parts, old.bias)
        elif isinstance(old, nn.Linear):  # the head of a model whose table of words is another one
            new = TableHead(TTMEmbedding(entry, block.get("threshold"), parts), old.bias, own=True)
        else:
            new = TTMEmbedding(entry, block.get("threshold"), parts, float(getattr(old, "embed_scale", 1.0)))
            tied[id(old.weight)] = new
        parent, _, child = path.rpartition(".")
        setattr(model.get_submodule(parent), child, new)
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and id(module.weight) in tied:
            parent, _, child = path.rpartition(".")
            setattr(model.get_submodule(parent), child, TableHead(tied[id(module.weight)], module.bias))
    parameters = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name not in used and rename(name) in parameters:
                parameters[rename(name)].copy_(tensor)
    model.comera_rename = rename
    return model


def load(folder, model_class=None, dtype=torch.float32):
    """The model of a folder, with the class of transformers that its config.json names, or `model_class`."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(_transformer_folder(folder))
    if model_class is None:
        names = config.architectures or ["AutoModel"]
        # Mistral files with layer_types, which transformers reads as Ministral's, have Mistral's class.
        if config.model_type == "ministral":
            names = [names[0].replace("Mistral", "Ministral")]
        model_class = getattr(transformers, names[0], transformers.AutoModel)
    make = model_class.from_config if hasattr(model_class, "from_config") else model_class
    return replace(make(config).to(dtype), folder, dtype).eval()


def save(model, folder, out):
    """Writes the model into `out`, with the names and types of `folder`, from which it was made."""
    config, tensors = _read(folder)
    entries = config.get("comera", {}).get("tensors", {})
    rename = model.comera_rename
    parameters = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    new = {}
    for name in entries:
        for suffix, tensor in model.get_submodule(rename(name)).tensors().items():
            new[f"{name}.{suffix}"] = tensor
    for name, tensor in tensors.items():
        if name not in new:
            new[name] = parameters.get(rename(name), tensor).detach()
        new[name] = new[name].to(tensor.dtype).cpu().contiguous()
    source = _transformer_folder(folder)
    target = os.path.join(out, os.path.relpath(source, folder))
    os.makedirs(target, exist_ok=True)
    for root in {source, folder}:
        for entry in os.listdir(root):
            path = os.path.join(root, entry)
            if os.path.isfile(path) and entry.endswith((".json", ".txt", ".model", ".jinja")) and "index" not in entry:
                shutil.copy(path, os.path.join(out, os.path.relpath(root, folder)))
    save_file(new, os.path.join(target, "model.safetensors"), {"format": "pt", "comera_format": "1"})
