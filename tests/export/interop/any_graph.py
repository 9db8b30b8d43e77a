#!/usr/bin/env python3
"""Compares graphs of other exporters before and after `comera tensorize`: runs ONNX's checker and ONNX Runtime, and
checks that unrelated parts keep their bytes.

usage: any_graph.py PROGRAM      in an empty folder
"""
import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

RANK = 4
FIRST_MESSAGE = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7}  # message format of each opset
random = np.random.default_rng(3)


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def matrix(rows, columns, dtype=np.float32):
    """A random matrix with the rank of the chains, so that only rounding errors occur."""
    return (random.normal(size=(rows, RANK)) @ random.normal(size=(RANK, columns)) / np.sqrt(RANK * rows)).astype(dtype)


def constant(name, values):
    return numpy_helper.from_array(values, name)


def value(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], name=f"node_{output}", **attributes)


def constant_node(name, values):
    return node("Constant", [], name, value=numpy_helper.from_array(values))


class Case:
    """`chains`: number of weights that become chains. `readers`: outputs of the nodes that read one. `gone`: outputs of
    the nodes that are removed.
    """

    def __init__(self, name, nodes, constants, inputs, outputs, chains, readers, gone=(), opset=17, feeds=None,
                 bound=2e-6, ir=None, functions=None):
        self.name, self.chains, self.feeds, self.bound = name, chains, feeds, bound
        self.readers, self.gone = set(readers), set(gone)
        imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("own", 1)] if functions else [])
        version = ir or FIRST_MESSAGE.get(opset, 8)
        if version < 4:
            inputs = inputs + [value(one.name, list(one.dims), one.data_type) for one in constants]
        graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
        self.model = helper.make_model(graph, opset_imports=imports, ir_version=version, functions=functions or [])


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def x_of(*dims):
    return random.normal(size=dims).astype(np.float32)


def ids_of(rows, *dims, low=0):
    return random.integers(low, rows, size=dims, dtype=np.int64)


def products():
    """Either operand of MatMul and Gemm, in every readable opset. Weights are initialisers or Constant nodes, also read
    through views.
    """
    for opset in (7, 8, 9, 10, 11, 12, 13, 17, 21):
        yield Case(f"products{opset}",
                   [node("MatMul", ["x", "a"], "h"), node("Transpose", ["b"], "bt", perm=[1, 0]),
                    node("MatMul", ["h", "bt"], "i"), node("Gemm", ["i", "c", "bias"], "j", transB=1, alpha=0.5),
                    node("Identity", ["d"], "d1"), node("Gemm", ["d1", "j", "square"], "k", transB=1),
                    constant_node("e", matrix(20, 16)), node("MatMul", ["e", "k"], "y")],
                   [constant("a", matrix(16, 24)), constant("b", matrix(32, 24)), constant("c", matrix(24, 32)),
                    constant("bias", x_of(3, 24)), constant("d", matrix(16, 24)), constant("square", x_of(16, 3))],
                   [value("x", [3, 16])], [value("y", [20, 3])], 5, ["h", "i", "j", "k", "y"], ["bt", "d1", "e"],
                   opset, lambda: [{"x": x_of(3, 16)}])


def half():
    """A weight in half precision and one in single precision keep their types."""
    yield Case("mixed",
               [node("MatMul", ["x", "a"], "h"), node("Cast", ["h"], "h16", to=TensorProto.FLOAT16),
                node("MatMul", ["h16", "b"], "y")],
               [constant("a", matrix(16, 24)), constant("b", matrix(24, 32, np.float16))], [value("x", [3, 16])],
               [value("y", [3, 32], TensorProto.FLOAT16)], 2, ["h", "y"], feeds=lambda: [{"x": x_of(3, 16)}],
               bound=2e-2)


def double():
    """Nodes that compute in double still do so, with chains in single precision."""
    yield Case("double",
               [node("MatMul", ["x", "a"], "h"), node("Cast", ["h"], "h32", to=TensorProto.FLOAT),
                node("Cast", ["b"], "b32", to=TensorProto.FLOAT), node("MatMul", ["h32", "b32"], "y")],
               [constant("a", matrix(16, 24, np.float64)), constant("b", matrix(24, 32, np.float64))],
               [value("x", [3, 16], TensorProto.DOUBLE)], [value("y", [3, 32])], 2, ["h", "y"], gone=["b32"],
               feeds=lambda: [{"x": random.normal(size=(3, 16))}])


def lookups():
    """Rows and columns by ids of any number of dimensions, counted from both ends. The table is stored as it is or
    transposed.
    """
    shapes = {"scalar": (), "one": (5,), "two": (2, 3), "three": (2, 1, 4)}
    for opset in (7, 11, 12, 17):
        for kind in ("rows", "columns", "turned_rows", "turned_columns", "both"):
            for label, shape in shapes.items():
                stored = matrix(40, 24)
                height, width = (24, 40) if kind.startswith("turned") else (40, 24)
                axis = 0 if kind.endswith("rows") else 1
                limit = height if axis == 0 else width
                nodes = [node("Transpose", ["t"], "tt", perm=[1, 0])] if kind.startswith("turned") else []
                nodes += [node("Gather", [("tt" if nodes else "t"), "ids"], "y",
                               axis=axis if opset < 11 or axis == 0 else -1)]
                dims = list(shape) + [width] if axis == 0 else [height] + list(shape)
                outputs, readers = [value("y", dims)], ["y"]
                if kind == "both":
                    nodes += [node("Gather", ["t", "ids"], "z", axis=0)]
                    outputs, readers = outputs + [value("z", list(shape) + [width])], ["y", "z"]
                low = -limit if opset >= 11 else 0
                yield Case(f"{kind}_{label}_{opset}", nodes, [constant("t", stored)],
                           [value("ids", list(shape), TensorProto.INT64)], outputs, 1, readers,
                           ["tt"] if kind.startswith("turned") else [],
                           opset, lambda limit=limit, shape=shape, low=low: [{"ids": ids_of(limit, *shape, low=low)}])
    yield Case("columns_of_unknown_rank",
               [node("Gather", ["t", "ids"], "y", axis=1), node("Cast", ["y"], "z", to=TensorProto.FLOAT)],
               [constant("t", matrix(40, 24))], [value("ids", None, TensorProto.INT32)], [value("z", None)], 1, ["y"],
               feeds=lambda: [{"ids": ids_of(24, *shape).astype(np.int32)}
                              for shape in [(), (4,), (2, 3), (0,), (0, 3), (3, 0), (1, 2, 3)]])
    yield Case("rows_of_unknown_rank",
               [node("Gather", ["t", "ids"], "y"), node("Cast", ["y"], "z", to=TensorProto.FLOAT)],
               [constant("t", matrix(40, 24))], [value("ids", None, TensorProto.INT32)], [value("z", None)], 1, ["y"],
               feeds=lambda: [{"ids": ids_of(40, *shape).astype(np.int32)}
                              for shape in [(), (4,), (2, 3), (0,), (0, 3), (3, 0), (1, 2, 3)]])


def disguised():
    """Matrices with leading sizes of 1: the result keeps its number of dimensions, also for vectors."""
    for lead in (1, 2):
        for side in ("right", "left"):
            stored = matrix(16, 24).reshape([1] * lead + [16, 24])
            order = list(range(lead)) + [lead + 1, lead]
            for turned in (False, True):
                inner = (24 if turned else 16) if side == "right" else (16 if turned else 24)
                shapes = [(inner,)] + [(*batch, *((3, inner) if side == "right" else (inner, 3)))
                                       for batch in [(), (2,), (2, 5), (2, 1, 5)]]
                nodes = [node("Transpose", ["w"], "wt", perm=order)] if turned else []
                name = "wt" if turned else "w"
                nodes += [node("MatMul", ["x", name] if side == "right" else [name, "x"], "y"),
                          node("Identity", ["y"], "z")]
                yield Case(f"disguised_{lead}_{side}_{turned}", nodes, [constant("w", stored)], [value("x", None)],
                           [value("z", None)], 1, ["y"], ["wt"] if turned else [],
                           feeds=lambda shapes=shapes: [{"x": x_of(*shape)} for shape in shapes])


def others():
    """Other nodes read the matrix of a product or a lookup as it is: they get it multiplied out, under its old name."""
    for opset in (7, 12, 17):
        yield Case(f"others{opset}",
                   [node("MatMul", ["x", "w"], "h"), node("Add", ["h", "w"], "i"), constant_node("c", matrix(24, 24)),
                    node("MatMul", ["i", "c"], "j"), node("Sub", ["j", "c"], "k"), node("Gather", ["t", "ids"], "l"),
                    node("Tanh", ["t"], "m"), node("MatMul", ["k", "m"], "n"), node("Add", ["n", "l"], "y")],
                   [constant("w", matrix(24, 24)), constant("t", matrix(24, 32))],
                   [value("x", [24, 24]), value("ids", [24], TensorProto.INT64)], [value("y", [24, 32])], 3,
                   ["h", "j", "l", "c"], opset=opset, feeds=lambda: [{"x": x_of(24, 24), "ids": ids_of(24, 24)}])


def branches():
    """As in optimum's merged decoders, both branches of an If read weights of the outer graph and have own weights."""
    def branch(tag, weight, own):
        local = constant("local", matrix(16, 24)) if own == "initialiser" else None
        nodes = [node("MatMul", ["h", weight], f"{tag}_a"), node("Transpose", ["words"], "words_t", perm=[1, 0]),
                 node("MatMul", [f"{tag}_a", "words_t"], "tied"), node("Gather", ["words", "ids"], "looked")]
        nodes += [] if local else [constant_node("local", matrix(16, 24))]
        nodes += [node("MatMul", ["x", "local"], "own"), node("MatMul", ["own", "outer_view"], "more"),
                  node("Concat", ["tied", "more"], f"{tag}_out", axis=1),
                  node("ReduceMax", ["looked"], f"{tag}_top", keepdims=0)]
        return helper.make_graph(nodes, tag, [], [value(f"{tag}_out", [None, None]), value(f"{tag}_top", [])],
                                 [local] if local else [])

    for opset in (11, 12, 17):
        then, otherwise = branch("then", "w2", "initialiser"), branch("else", "w2", "node")
        inner = node("If", ["flag"], "unused", then_branch=then, else_branch=otherwise)
        del inner.output[:]
        inner.output.extend(["y", "top"])
        yield Case(f"merged{opset}", [node("MatMul", ["x", "w1"], "h"), node("Identity", ["w3"], "outer_view"), inner],
                   [constant("w1", matrix(16, 24)), constant("w2", matrix(24, 20)), constant("w3", matrix(24, 40)),
                    constant("words", matrix(40, 20))],
                   [value("x", [3, 16]), value("flag", [], TensorProto.BOOL), value("ids", [2, 2], TensorProto.INT64)],
                   [value("y", [None, None]), value("top", [])], 6,
                   ["h", "then_a", "else_a", "tied", "looked", "own", "more"], ["outer_view", "words_t", "local"],
                   opset, lambda: [{"x": x_of(3, 16), "flag": np.array(flag), "ids": ids_of(40, 2, 2)}
                                   for flag in (True, False)])
    nested = node("If", ["flag"], "n_out",
                  then_branch=helper.make_graph([node("MatMul", ["c_in", "w"], "deep")], "deep", [],
                                                [value("deep", [None, None])]),
                  else_branch=helper.make_graph([node("Identity", ["c_in"], "same")], "same", [],
                                                [value("same", [None, None])]))
    body = helper.make_graph([node("Identity", ["c"], "c_out"), nested], "body",
                             [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL),
                              value("c_in", [3, 24])],
                             [value("c_out", [], TensorProto.BOOL), value("n_out", [None, None])])
    yield Case("loop", [node("Loop", ["count", "go", "x"], "y", body=body)],
               [constant("w", matrix(24, 24)), constant("count", np.array(3)), constant("go", np.array(True))],
               [value("x", [3, 24]), value("flag", [], TensorProto.BOOL)], [value("y", [None, None])], 1, ["deep"],
               feeds=lambda: [{"x": x_of(3, 24), "flag": np.array(flag)} for flag in (True, False)])
    scanned = helper.make_graph([node("MatMul", ["s_in", "w"], "p"), node("Add", ["p", "e"], "s_out"),
                                 node("Identity", ["s_out"], "e_out")], "scanned",
                                [value("s_in", [24]), value("e", [24])], [value("s_out", [24]), value("e_out", [24])])
    scan = helper.make_node("Scan", ["state", "x"], ["last", "y"], name="scan", body=scanned, num_scan_inputs=1)
    yield Case("scan", [scan], [constant("w", matrix(24, 24)), constant("state", x_of(24))], [value("x", [5, 24])],
               [value("last", [None]), value("y", [None, None])], 1, ["p"], feeds=lambda: [{"x": x_of(5, 24)}])


def functions():
    body = helper.make_function("own", "Layer", ["v"], ["u"],
                                [constant_node("inside", matrix(16, 24)), node("MatMul", ["v", "inside"], "u")],
                                [helper.make_opsetid("", 17)])
    yield Case("function", [helper.make_node("Layer", ["x"], ["h"], domain="own"), node("MatMul", ["h", "w"], "y")],
               [constant("w", matrix(24, 32))], [value("x", [3, 16])], [value("y", [None, None])], 1, ["y"],
               feeds=lambda: [{"x": x_of(3, 16)}], functions=[body])


def every_node(graph):
    for one in graph.node:
        yield one
        for attribute in one.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from every_node(inner)


def check_rest(case, small):
    """Compares nodes and initialisers without chains byte by byte. Of a node with subgraphs, compares inner nodes."""
    touched = case.readers | case.gone
    plain = lambda model: [one for one in every_node(model.graph)
                           if not any(attribute.HasField("g") for attribute in one.attribute)]
    kept = [one.SerializeToString() for one in plain(case.model) if one.output[0] not in touched]
    after = [one.SerializeToString() for one in plain(small)]
    positions = [after.index(one) for one in kept if one in after]
    expect(len(positions) == len(kept), f"{case.name}: a node that reads no chain has changed")
    made = {one.output[0] for one in every_node(small.graph)}
    expect(case.readers <= made and not case.gone & made, f"{case.name}: made {made}")
    before = {one.name: one.SerializeToString() for one in case.model.graph.initializer}
    same = [one for one in small.graph.initializer if one.name in before]
    expect(all(one.SerializeToString() == before[one.name] for one in same), f"{case.name}: an initialiser has changed")
    for field in ("output", "name", "doc_string", "sparse_initializer", "quantization_annotation"):
        expect(getattr(case.model.graph, field) == getattr(small.graph, field), f"{case.name}: {field} has changed")
    expect(list(case.model.opset_import) == list(small.opset_import) and case.model.ir_version == small.ir_version,
           f"{case.name}: the versions changed")
    expect(case.model.functions == small.functions, f"{case.name}: a function has changed")


def tensorize(program, name, model, options):
    onnx.save(model, "in.onnx")
    for stale in ("out.onnx", "out.onnx.report.json", "out.onnx.report.html"):
        if os.path.exists(stale):
            os.remove(stale)
    result = subprocess.run([program, "tensorize", "in.onnx", "-o", "out.onnx", *options], capture_output=True,
                            text=True)
    expect(result.returncode == 0, f"{name}: {result.stderr}")
    return int(re.search(r"(\d+) weights? became", result.stderr)[1])


def check(program, case, options):
    ranked = all(one.type.tensor_type.HasField("shape") for one in case.model.graph.input)  # the checker requires it
    if ranked:
        onnx.checker.check_model(case.model, full_check=True)
    chains = tensorize(program, case.name, case.model, options)
    expect(chains == case.chains, f"{case.name}: {chains} chains, {case.chains} wanted")
    small = onnx.load("out.onnx")
    if ranked:
        onnx.checker.check_model(small, full_check=True)
    check_rest(case, small)
    expect(json.load(open("out.onnx.report.json"))["totals"]["file_bytes"] == len(open("out.onnx", "rb").read()),
           case.name)
    before, after, worst = session("in.onnx"), session("out.onnx"), 0
    for feeds in case.feeds():
        for one, two in zip(before.run(None, feeds), after.run(None, feeds)):
            expect(one.shape == two.shape and one.dtype == two.dtype,
                   f"{case.name}: {one.shape} {one.dtype} became {two.shape} {two.dtype}")
            apart = np.abs(one.astype(np.float64) - two).max() if one.size else 0
            largest = np.abs(one.astype(np.float64)).max() if one.size else 1
            expect(apart <= case.bound * max(1, largest), f"{case.name}: {apart} of {largest}")
            worst = max(worst, apart)
    return worst


def check_tables(program):
    """Tables in both modes, with padded row modes: ids of any shape give the same rows as ids in order."""
    for opset in (7, 11, 17):
        for turned, axis in ((False, 0), (True, 1), (True, 0), (False, 1)):
            stored = x_of(*((24, 61) if turned != (axis == 1) else (61, 24)))
            name = f"table of opset {opset}, axis {axis}, {'turned' if turned else 'as stored'}"
            # The axis of the lookup always has 61 entries, in the stored table or in its transpose.
            nodes = [node("Transpose", ["t"], "tt")] if turned else []
            nodes += [node("Gather", ["tt" if turned else "t", "ids"], "y", axis=axis), node("Identity", ["y"], "z")]
            case = Case(name, nodes, [constant("t", stored)], [value("ids", None, TensorProto.INT64)],
                        [value("z", None)], 1, ["y"], opset=opset)
            expect(tensorize(program, name, case.model, ["--rank", "6", "--form", "ttm", "--allow-slower"]) == 1, name)
            expect(any(one.op_type == "Sub" for one in onnx.load("out.onnx").graph.node),
                   f"{name}: is no table in both modes")
            running = session("out.onnx")
            whole = running.run(None, {"ids": np.arange(61)})[0]
            expect(whole.shape == ((61, 24) if axis == 0 else (24, 61)), f"{name}: {whole.shape}")
            for shape in [(), (4,), (2, 3), (1, 2, 3), (0,)] + ([(3, 0)] if opset >= 14 else []):
                ids = ids_of(61, *shape, low=-61 if opset >= 11 else 0)
                rows = running.run(None, {"ids": ids})[0]
                expect(rows.shape == np.take(whole, ids, axis).shape, f"{name}: ids of shape {shape} give {rows.shape}")
                expect(np.allclose(rows, np.take(whole, ids, axis), rtol=0, atol=1e-5),
                       f"{name}: other rows for ids {ids.tolist()}")


def check_external(program):
    """Data of all graphs in a second file, and the result in a separate folder."""
    for case in branches():
        os.makedirs("there", exist_ok=True)
        onnx.save(case.model, "in.onnx")
        for stale in ("there/in.onnx", "there/in.data", "there/out.onnx"):
            if os.path.exists(stale):
                os.remove(stale)
        onnx.save(case.model, "there/in.onnx", save_as_external_data=True, location="in.data", size_threshold=64)
        os.makedirs("here", exist_ok=True)
        for name in os.listdir("here"):
            os.remove(f"here/{name}")
        result = subprocess.run([program, "tensorize", "there/in.onnx", "-o", "here/out.onnx", "--rank", str(RANK)],
                                capture_output=True, text=True)
        expect(result.returncode == 0, f"{case.name}: {result.stderr}")
        before, after = session("in.onnx"), session("here/out.onnx")
        for feeds in case.feeds():
            for one, two in zip(before.run(None, feeds), after.run(None, feeds)):
                expect(np.allclose(one, two, rtol=0, atol=case.bound), f"{case.name}: other numbers with external data")


def main(program):
    check_external(program)
    check_tables(program)
    count, worst = 0, 0
    for cases in (products, half, double, lookups, disguised, others, branches, functions):
        for case in cases():
            worst = max(worst, check(program, case, ["--rank", str(RANK), "--form", "lowrank"]))
            count += 1
    print(f"{count} graphs, outputs at most {worst:.1e} apart")


if __name__ == "__main__":
    main(sys.argv[1])
