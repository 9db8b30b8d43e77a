#!/usr/bin/env python3
"""Time of a training step on a GPU, on paper: launches, their bytes, instructions and estimated microseconds.

  scripts/cuda_cost.py                       mnli-6enc in TT form, 32 x 128 tokens, bf16
  scripts/cuda_cost.py --batch 1 --model encoder-small --rank 8
  scripts/cuda_cost.py --save FILE           also writes the launches, for --launches FILE: a run takes minutes
  scripts/cuda_cost.py --measured FILE       beside what a GPU took, a step of scripts/gpu_timeline.py

The launches are those of the host: the program record_step (cmake --build build --target record_step) runs one step on
the emulator of the CUDA backend and counts what the threads of each launch do. The instructions are those of nvcc for
sm_90a, read with nvdisasm. Without these tools the bounds by instructions are left out, and a line says so.

A launch takes the gap before it and the longest of five times:
  bytes    what it reads and writes, each sector of 32 bytes once, at the rate of the memory; sectors that are in the
           second-level cache, because they are among the latest 25 MiB that the step touched, are read at its rate, and
           so is what the blocks read together (a sector once for each block).
  tensor   its mma instructions at the rate that mma.sync reaches.
  shared   what its threads read and write in shared memory, at the rate of the multiprocessor with the most blocks.
  issue    its instructions on that multiprocessor, four per clock.
  latency  the waves of its blocks, each as long as a warp that runs alone: its instructions in order, each waiting for
           the results that it reads (cuda_schedule.py). So a loop whose pass uses its own loads waits once per pass.
           Without a disassembly a wave waits twice for memory, and at its barriers.

On GPUs of compute capability 9.0 a kernel behind a kernel has the shorter gap of dependent launches: its blocks are
there when the kernel before ends, and the gap is from the last write to the end of begin_kernel(). Copies, fills,
products of the library and what follows them have the whole gap; --ordered gives it to every launch (comera's
--launches ordered). The shorter gap is a guess without a published figure. What early blocks cost is not in the model:
they take registers and shared memory of the kernel that still runs, and blocks that come early are spread over the
multiprocessors that have room, not evenly.

What is counted: bytes, mma instructions, exchanges and barriers are those of the emulated run. What is assumed: SASS
shows no trip counts. A warp takes the longest way through a kernel's branches, but none with accesses by one or two
bytes if the run had none. Code outside of loops is executed once; the passes of the loops are those with which the
counts of the run result (cuda_sass.py). Bank conflicts, the special function unit, instructions that are not in the
cache and the order in which blocks end are not in the model, and nothing is adjusted to a measurement of this project.
On an H100 the kernels of a step took 1.25 times their estimates at batch 32 and .97 times at batch 1 (docs/results/gpu.md);
single kernels are off by up to a factor of five. --measured shows which.
"""

import argparse
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import cuda_registers
import cuda_sass
import cuda_schedule
from sources import ROOT


@dataclasses.dataclass
class Gpu:
    memory: float  # bytes a second
    cache: float = 5.5e12  # of the second level; Chips and Cheese 2023, "Nvidia's H100: Funny L2, ..."
    processors: int = 132  # data sheet, SXM
    clock: float = 1.755e9  # the same article; the 1.98e9 of the data sheet are not held under load
    tensor: float = 990e12 * 0.62  # data sheet, dense bf16; the share of mma.sync: Luo et al. 2024, arXiv 2402.13499
    memory_clocks: float = 600  # a read that no cache has; published figures are 480 to 660
    cache_clocks: float = 265  # a read of the second-level cache; published figures are 200 to 280
    shared_bytes: float = 128  # of shared memory a clock, of a multiprocessor; CUDA programming guide: 32 banks
    barrier_clocks: float = 60  # of a block, with a read of shared memory (30) behind it; a guess
    dependent_clocks: float = 4  # until an instruction can use a result (PMC10448217, table 3)
    gap: float = 1.0e-6  # between the end of a launch of a graph and the beginning of the next one; a guess
    early_gap: float = 0.5e-6  # the same for a kernel that was let in while the one before ended; a guess
    warps: int = 64  # of a multiprocessor; this and the next three: CUDA programming guide, compute capability 9.0
    blocks: int = 32
    registers: int = 65536
    shared: int = 227 << 10


# Memory: copies on one card of each kind, read and written bytes together.
GPUS = {"h100": Gpu(memory=3.0e12), "h200": Gpu(memory=4.3e12)}
# Seconds and launches of mnli-6enc at 128 tokens that are wanted, and what a review of the sources estimated.
TARGETS = {32: 1.45e-3, 1: 0.8e-3}
MOST_LAUNCHES, REVIEW = 175, 1.95e-3
# Kernels that work in one step of several (steps_of_decay in lib/train/optimizer.cpp) and end at once in the others.
STEPS_OF_WORK = {"chain_decay: decay_chains": 8}
FLOPS_OF_MMA = 2 * 16 * 8 * 16  # m16n8k16
COUNTS = ("count", "ordered", "block", "dynamic_shared", "read", "cached", "written", "by_blocks", "accesses", "narrow",
          "shared", "products", "blocks", "exchanges", "barriers")
USED = re.compile(r"Used (\d+) registers.*?(?:, (\d+) bytes smem)?$")


class Failure(Exception):
    pass


# Launches ------------------------------------------------------------------------------------------------------------


def kernel_names(program):
    """{distance from the program's first byte: name as in kernels/cuda/registers.tsv}"""
    listing = subprocess.run(["nm", "-p", "-a", program], capture_output=True, text=True, check=True).stdout
    found, file = [], ""
    for line in listing.splitlines():
        address, _, rest = line.partition(" ")
        kind, _, name = rest.partition(" ")
        if kind == "a":
            file = name.removesuffix(".cu") if name.endswith(".cu") else ""
        elif kind in "tTwW" and name.startswith("_ZN6comera7kernels4cuda"):
            found.append((int(address, 16), name, file if "_GLOBAL__N_" in name else ""))
    names = cuda_registers.short([name for _, name, _ in found])
    return {address: f"{file}: {name}" if file else name for (address, _, file), name in zip(found, names)}


def record(options):
    program = pathlib.Path(options.build) / "record_step"
    if not program.exists():
        raise Failure(f"{program} is missing: cmake --build {options.build} --target record_step, with "
                      "-DCOMERA_TESTS=ON; or give --launches FILE")
    command = [program, "--model", options.model, "--form", "tt", "--rank", str(options.rank), "--batch",
               str(options.batch), "--seq", str(options.seq), "--optimizer", options.optimizer]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{program} ended with {done.returncode}")
    names = kernel_names(program)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    at = lines[0].index("kernel")
    for line in lines[1:]:
        if len(line) > at and line[at] != "-":
            line[at] = names.get(int(line[at], 16), line[at])
    return "\n".join("\t".join(line) for line in lines) + "\n"


def launches_of(text):
    """The launches as dictionaries, and the calls of the recorded graph."""
    lines = [line.split("\t") for line in text.splitlines()]
    if not lines or lines[0][0] != "op":
        raise Failure("no list of launches: want the output of record_step")
    launches, graph = [], None
    for number, line in enumerate(lines[1:], 2):
        if line[0] == "graph":
            graph = int(line[1])
            continue
        try:
            launch = dict(zip(lines[0], line, strict=True))
            launch.update({name: int(launch[name]) for name in COUNTS})
            x, y, z = map(int, launch["grid"].split("x"))
        except (KeyError, ValueError):
            raise Failure(f"line {number} of the launches cannot be read") from None
        launch["grid_blocks"] = x * y * z
        launches.append(launch)
    if graph is None:
        raise Failure("the list of launches has no end")
    return launches, graph


# Instructions --------------------------------------------------------------------------------------------------------


def is_older(made, dependencies):
    if not made.exists() or not dependencies.exists():
        return True
    paths = dependencies.read_text(encoding="utf-8").replace("\\\n", " ").partition(" : ")[2].split()
    return any(not (ROOT / path).exists() or (ROOT / path).stat().st_mtime > made.stat().st_mtime for path in paths)


@dataclasses.dataclass
class Kernel:
    lines: list  # of the disassembly
    registers: int = 0
    static_shared: int = 0

    @functools.cache
    def mix(self, has_narrow):
        mix = cuda_sass.mix_of(self.lines, has_narrow)
        mix.registers, mix.static_shared = self.registers, self.static_shared
        return mix

    __hash__ = object.__hash__


def disassembled(file, folder, nvcc, nvdisasm):
    """The kernels of kernels/cuda/FILE.cu by name. Compiles only what has changed."""
    cubin, log = folder / f"{file}.cubin", folder / f"{file}.log"
    dependencies = folder / f"{file}.d"
    if is_older(cubin, dependencies):
        print(f"compiling kernels/cuda/{file}.cu for sm_90a", file=sys.stderr)
        command = [nvcc, "-gencode", "arch=compute_90a,code=sm_90a", "-cubin", "-O3", "-std=c++20",
                   "--expt-relaxed-constexpr", "-Xptxas", "-v", "-I.", "-MD", "-MF", dependencies,
                   f"kernels/cuda/{file}.cu", "-o", cubin]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode != 0:
            cubin.unlink(missing_ok=True)
            raise Failure(f"nvcc cannot compile kernels/cuda/{file}.cu:\n{done.stdout}")
        log.write_text(done.stdout, encoding="utf-8")
    text = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    kernels = {name: Kernel(lines) for name, lines in cuda_sass.functions_of(text).items()}
    entry = None
    for line in log.read_text(encoding="utf-8").splitlines():
        if match := cuda_registers.ENTRY.search(line):
            entry = kernels.get(match[1])
        elif entry and (match := USED.search(line)):
            entry.registers, entry.static_shared = int(match[1]), int(match[2] or 0)
    return dict(zip(cuda_registers.short(list(kernels)), kernels.values()))


def files_of(launches):
    """The .cu files whose kernels or ops are among the launches."""
    stems = sorted((path.stem for path in (ROOT / "kernels" / "cuda").glob("*.cu")), key=len)
    files = {launch["kernel"].partition(": ")[0] for launch in launches if ": " in launch["kernel"]}
    for launch in launches:
        files.update([stem for stem in stems if launch["op"].startswith(stem)][-1:])
    return sorted(files)


def find_tools(options):
    nvcc = options.nvcc or os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    beside = pathlib.Path(nvcc).resolve().parent / "nvdisasm"
    nvdisasm = (options.nvdisasm or os.environ.get("NVDISASM") or
                (str(beside) if beside.exists() else shutil.which("nvdisasm")))
    missing = [name for name, path in (("nvcc", shutil.which(nvcc)), ("nvdisasm", nvdisasm and shutil.which(nvdisasm)))
               if not path]
    return nvcc, nvdisasm, missing


def kernels_for(launches, options):
    nvcc, nvdisasm, missing = find_tools(options)
    if missing or options.no_instructions:
        print("SKIPPED: instructions: " + (", ".join(missing) + " not found" if missing else "--no-instructions") +
              "; estimates are without them and too low", file=sys.stderr)
        return {}
    folder = pathlib.Path(options.build).resolve() / "cuda_cost"
    folder.mkdir(parents=True, exist_ok=True)
    kernels = {}
    for file in files_of(launches):
        kernels.update(disassembled(file, folder, nvcc, nvdisasm))
    unknown = {launch["kernel"] for launch in launches} - kernels.keys() - {"-"}
    if unknown:
        print("SKIPPED: instructions of " + ", ".join(sorted(unknown)), file=sys.stderr)
    return kernels


# Model ---------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Estimate:
    bytes: float = 0
    tensor: float = 0
    shared: float = 0
    issue: float = 0
    latency: float = 0
    gap: float = 0  # mean of the launches of a row
    total: float = 0
    instructions: float = 0  # of warps
    fma: float = 0  # FLOPs


def instructions_of(launch, mix, gpu):
    """Instructions of all warps, FLOPs of multiply-adds outside of the tensor cores, and clocks of a warp that runs
    alone."""
    warps = launch["grid_blocks"] * ((launch["block"] + 31) // 32)
    counted = zip(cuda_sass.FITTED, ("products", "accesses", "shared", "exchanges"))
    passes = mix.passes(warps, {name: launch[column] / 32 for name, column in counted})
    instructions, fma = mix.executed(warps, passes)
    cached = launch["cached"] / launch["read"] if launch["read"] else 0
    read = cached * gpu.cache_clocks + (1 - cached) * gpu.memory_clocks
    clocks = mix.clocks(warps, passes, cuda_schedule.Clocks(read, gpu.barrier_clocks, gpu.dependent_clocks))
    return instructions, 64 * fma, clocks


def resident_blocks(launch, mix, gpu):
    """Blocks that a multiprocessor holds at a time."""
    warps = (launch["block"] + 31) // 32
    most = [gpu.blocks, gpu.warps // warps]
    registers = cuda_registers.allocated(mix.registers) * 32 * warps
    if registers:
        most.append(gpu.registers // registers)
    most.append(gpu.shared // (launch["dynamic_shared"] + mix.static_shared + 1024))
    return max(min(most), 1)


def estimate(launch, mix, gpu):
    result = Estimate()
    cold = launch["read"] - launch["cached"] + launch["written"]
    result.bytes = max(cold / gpu.memory, max(launch["by_blocks"], cold + launch["cached"]) / gpu.cache)
    if launch["kernel"] != "-":
        blocks = launch["grid_blocks"]
        busiest = -(-blocks // gpu.processors)  # blocks of one multiprocessor
        share = busiest * gpu.processors / blocks
        resident = min(resident_blocks(launch, mix, gpu), busiest)
        result.tensor = launch["products"] / 32 * FLOPS_OF_MMA / gpu.tensor * share
        result.shared = launch["shared"] / blocks * busiest / gpu.shared_bytes / gpu.clock
        result.instructions, result.fma, clocks = instructions_of(launch, mix, gpu)
        if not mix.items:
            clocks = 2 * gpu.memory_clocks + launch["barriers"] / (blocks * launch["block"]) * gpu.barrier_clocks
        result.issue = result.instructions / blocks * busiest / 4 / gpu.clock
        result.latency = -(-busiest // resident) * clocks / gpu.clock
    ordered = launch["ordered"] / launch["count"]
    result.gap = ordered * gpu.gap + (1 - ordered) * gpu.early_gap
    work = max(result.bytes, result.tensor, result.shared, result.issue, result.latency)
    result.total = result.gap + work / STEPS_OF_WORK.get(launch["kernel"], 1)
    return result


# Measurement ---------------------------------------------------------------------------------------------------------


def measured_of(text):
    """{(kernel without its file, blocks, threads of a block): [launches, microseconds that they add to the step]}"""
    seen = {}
    lines = [line.split("\t") for line in text.splitlines()]
    for line in lines[1:]:
        if len(line) < len(lines[0]):  # the whole step
            continue
        row = dict(zip(lines[0], line))
        key = (row["name"], int(row["blocks"]), int(row["threads"]))
        one = seen.setdefault(key, [0, 0.0])
        one[0] += 1
        one[1] += float(row["adds_us"])
    return seen


def print_measured(groups, seen):
    """Estimates beside a measurement. Calls of different shapes can share a row, because their launches look alike."""
    rows = {}
    for launch, count, _, total, _ in groups:
        if launch["kernel"] == "-":
            continue
        key = (launch["kernel"].rpartition(": ")[2], launch["grid_blocks"], launch["block"])
        row = rows.setdefault(key, [0, 0.0])
        row[0] += count
        row[1] += 1e6 * total
    lines = [(seen.get(key, [0, 0.0])[1], key, rows.get(key), seen.get(key)) for key in rows.keys() | seen.keys()]
    print("\nMicroseconds of all launches of a kernel that look alike, estimated and measured; - : not there\n")
    print(f"{'n':>4} {'estimate':>9} {'n':>4} {'measured':>9}  {'blocks x threads':<18} kernel")
    for _, (name, blocks, threads), estimated, found in sorted(lines, key=lambda line: -line[0]):
        words = [f"{part[0]:>4} {part[1]:>9.1f}" if part else f"{'-':>4} {'-':>9}" for part in (estimated, found)]
        print(*words, f" {f'{blocks} x {threads}':<18}", name)
    print(f"{sum(row[0] for row in rows.values()):>4} {sum(row[1] for row in rows.values()):>9.1f} "
          f"{sum(row[0] for row in seen.values()):>4} {sum(row[1] for row in seen.values()):>9.1f}  all")


# Output --------------------------------------------------------------------------------------------------------------


def grouped(launches, kernels, gpu):
    """[launch, how often, its estimate, sum, gaps of the sum], the largest sums first."""
    groups = {}
    for launch in launches:
        key = (launch["op"], launch["shape"], launch["kernel"], launch["grid"], launch["block"])
        kernel = kernels.get(launch["kernel"])
        one = estimate(launch, kernel.mix(launch["narrow"] > 0) if kernel else cuda_sass.Mix(), gpu)
        group = groups.setdefault(key, [launch, 0, one, 0, 0])
        group[1] += launch["count"]
        group[3] += launch["count"] * one.total
        group[4] += launch["count"] * one.gap
    return sorted(groups.values(), key=lambda group: -group[3])


def cells_of(launch, count, one, total, _):
    is_kernel = launch["kernel"] != "-"
    kernel = launch["kernel"].rpartition(": ")[2] if is_kernel else "copy, fill or library"
    sizes = [f"{launch[name] / 1e3:.0f}" for name in ("read", "cached", "written")]
    products = launch["products"] / 32 * FLOPS_OF_MMA
    times = [f"{1e6 * time:.2f}" for time in (one.bytes, one.tensor, one.shared, one.issue, one.latency, one.total)]
    return [f"{launch['op']}: {kernel}", launch["shape"], count, launch["grid"] if is_kernel else "",
            launch["block"] if is_kernel else "", *sizes, f"{products / 1e6:.0f}", f"{one.fma / 1e6:.0f}",
            f"{one.instructions / 1e3:.0f}", *times, f"{1e6 * total:.1f}"]


def print_table(groups):
    print("Sizes in KB, FLOPs of tensor cores (mma) and of multiply-adds (fma) in millions, thousands of instructions\n"
          "of warps, microseconds of a launch by each bound and with the gap (us), and of a row (sum).\n")
    head = ["op: kernel", "shape", "n", "grid", "block", "read", "cached", "written", "mma", "fma", "instr.", "bytes",
            "tensor", "shared", "issue", "latency", "us", "sum"]
    rows = [head] + [[str(cell) for cell in cells_of(*group)] for group in groups]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        cells = [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells))


def print_sums(groups, graph, gpu, options):
    """Sums per op and of the step; returns whether a target is missed."""
    ops = {}
    for launch, count, _, total, _ in groups:
        op = ops.setdefault(launch["op"], [0, 0])
        op[0] += count
        op[1] += total
    print(f"\n{'op':<28} {'launches':>8} {'us':>8}")
    for name, (count, total) in sorted(ops.items(), key=lambda item: -item[1][1]):
        print(f"{name:<28} {count:>8} {1e6 * total:>8.1f}")
    launches, step = sum(group[1] for group in groups), sum(group[3] for group in groups)
    gaps = sum(group[4] for group in groups)
    print(f"\nstep {1e3 * step:.3f} ms on one {options.gpu.upper()}, {1e3 * gaps:.3f} ms of them gaps; "
          f"{launches} launches, {graph} calls in the recorded graph")
    if options.model != "mnli-6enc" or options.seq != 128 or options.batch not in TARGETS:
        return False
    target = TARGETS[options.batch]
    said = ["met" if is_met else "missed" for is_met in (step <= target, graph <= MOST_LAUNCHES)]
    print(f"target {1e3 * target:.2f} ms: {said[0]}; target {MOST_LAUNCHES} launches: {said[1]}")
    if options.batch == 32:
        print(f"an earlier review of the sources estimated {1e3 * REVIEW:.2f} ms; this is {step / REVIEW:.2f} of it")
    return "missed" in said


def assumption(text):
    name, _, value = text.partition("=")
    if name not in {field.name for field in dataclasses.fields(Gpu)}:
        raise argparse.ArgumentTypeError(f"there is no constant {name}")
    number = float(value)
    return name, int(number) if number == int(number) and number < 1e6 else number


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mnli-6enc", help="of record_step (default: %(default)s)")
    parser.add_argument("--rank", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--optimizer", default="adamw", help="such as muon, the default of pretrain")
    parser.add_argument("--gpu", choices=GPUS, default="h100")
    parser.add_argument("--assume", metavar="NAME=VALUE", action="append", default=[], type=assumption,
                        help="another value of a constant, in its units: " +
                        ", ".join(field.name for field in dataclasses.fields(Gpu)))
    parser.add_argument("--ordered", action="store_true", help="no kernel begins before the one in front has ended")
    parser.add_argument("--build", default=str(ROOT / "build"), help="folder of record_step; keeps compiled kernels")
    parser.add_argument("--launches", metavar="FILE", help="read the launches from a file")
    parser.add_argument("--save", metavar="FILE", help="write the launches to a file")
    parser.add_argument("--measured", metavar="FILE", help="a step that a GPU ran, from scripts/gpu_timeline.py")
    parser.add_argument("--nvcc", help="default: CUDACXX, or that of the path")
    parser.add_argument("--nvdisasm", help="default: NVDISASM, beside nvcc, or that of the path; "
                        "third_party/cuda.sh --nvdisasm FOLDER finds or fetches one")
    parser.add_argument("--no-instructions", action="store_true", help="compile and disassemble nothing")
    parser.add_argument("--check", action="store_true", help="status 1 if the step misses a target")
    return parser.parse_args(arguments)


def main():
    options = options_of(sys.argv[1:])
    try:
        text = pathlib.Path(options.launches).read_text(encoding="utf-8") if options.launches else record(options)
        if options.save:
            pathlib.Path(options.save).write_text(text, encoding="utf-8")
        launches, graph = launches_of(text)
        gpu = dataclasses.replace(GPUS[options.gpu], **dict(options.assume))
        if options.ordered:
            gpu.early_gap = gpu.gap
        groups = grouped(launches, kernels_for(launches, options), gpu)
        seen = measured_of(pathlib.Path(options.measured).read_text(encoding="utf-8")) if options.measured else None
    except (Failure, OSError, KeyError, ValueError) as failure:
        print(f"cuda_cost.py: {failure}", file=sys.stderr)
        return 2
    print_table(groups)
    missed = print_sums(groups, graph, gpu, options)
    if seen is not None:
        print_measured(groups, seen)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
