#!/usr/bin/env python3
"""Checks scripts/cuda_cost.py: its sums and status on a small list of launches, its reading of a disassembly, and a
step of a small model that record_step runs on the emulator.

  tests/kernels/cuda_cost.py BUILD
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "cuda_cost.py"
sys.path.insert(0, str(SCRIPT.parent))
import cuda_cost
import cuda_sass
import cuda_schedule

COLUMNS = ("op", "shape", "count", "ordered", "kernel", "grid", "block", "dynamic_shared", "read", "cached", "written",
           "by_blocks", "accesses", "narrow", "shared", "products", "blocks", "exchanges", "barriers")
GPU = cuda_cost.GPUS["h100"]
# Copies, a block whose threads wait at 1,000 barriers, and mma instructions of two blocks on each
# multiprocessor.
LAUNCHES = [
    ("copies", "", 3, 3, "-", "1x1x1", 1, 0, 30_000_000, 0, 30_000_000, 0, 0, 0, 0, 0, 0, 0, 0),
    ("sums", "4 x 4", 2, 1, "norm: sums", "1x1x1", 64, 0, 64, 64, 32, 96, 96, 0, 0, 0, 0, 0, 64_000),
    ("products", "", 1, 0, "tensor<64>", "264x1x1", 128, 0, 64, 0, 32, 96, 96, 0, 0, 32 * 264_000, 0, 0, 0),
]
# A loop of two products and a load of 16 bytes, with an activation of two alternatives behind it. The block at the end
# comes back into the code before it, which makes no loop.
DISASSEMBLY = """
.text.kernel:
        /*0000*/                   MOV R1, R2 ;
.L_x_0:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*0030*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
        /*0050*/               @P1 BRA `(.L_x_1) ;
        /*0060*/                   FFMA R1, R1, R1, R1 ;
        /*0070*/                   FFMA R1, R1, R1, R1 ;
        /*0080*/                   BRA `(.L_x_2) ;
.L_x_1:
        /*0090*/                   LDG.E.U16 R1, desc[UR4][R2.64] ;
        /*00a0*/                   FFMA R1, R1, R1, R1 ;
        /*00b0*/                   FFMA R1, R1, R1, R1 ;
        /*00c0*/                   FFMA R1, R1, R1, R1 ;
.L_x_2:
        /*00d0*/              @!P2 BRA `(.L_x_4) ;
.L_x_3:
        /*00e0*/                   STG.E desc[UR4][R2.64], R1 ;
        /*00f0*/                   EXIT ;
.L_x_4:
        /*0100*/                   MOV R1, R2 ;
        /*0110*/                   BRA `(.L_x_3) ;
.L_x_5:
        /*0120*/                   BRA `(.L_x_5);
        /*0130*/                   NOP ;
"""
failures = []


def check(is_true, what):
    if not is_true:
        failures.append(what)


def near(a, b, tolerance=1e-6):
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def run(*arguments):
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)


def step_of(done):
    """Milliseconds, launches and calls of the graph in the output."""
    match = re.search(r"^step ([0-9.]+) ms on one H[12]00, [0-9.]+ ms of them gaps; (\d+) launches, (\d+) calls",
                      done.stdout, re.MULTILINE)
    check(match, f"no sums: status {done.returncode}, {done.stdout}{done.stderr}")
    return (float(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def check_sums(folder):
    path = folder / "launches"
    text = "\n".join("\t".join(map(str, line)) for line in [COLUMNS, *LAUNCHES]) + "\n"
    path.write_text(text + "graph\t6\n", encoding="utf-8")
    done = run("--launches", path, "--no-instructions")
    copies = 3 * (GPU.gap + 60e6 / GPU.memory)
    waits = GPU.gap + GPU.early_gap + 2 * ((2 * GPU.memory_clocks + 1000 * GPU.barrier_clocks) / GPU.clock)
    products = GPU.early_gap + 264_000 * 4096 / GPU.tensor
    milliseconds, launches, graph = step_of(done)
    check(abs(milliseconds - 1e3 * (copies + waits + products)) < 1e-3, f"the sum is {milliseconds} ms")
    check((launches, graph) == (6, 6), f"{launches} launches, {graph} calls")
    check("SKIPPED: instructions: " in done.stderr, "says nothing of the missing instructions")
    check(done.returncode == 0, f"ended with {done.returncode}")
    check("target 1.45 ms: met; target 175 launches: met" in done.stdout, "no targets")
    path.write_text(text + "graph\t176\n", encoding="utf-8")
    check(run("--launches", path, "--no-instructions", "--check").returncode == 1, "a missed target has status 0")
    check(run("--launches", path, "--no-instructions").returncode == 0, "without --check a missed target has a status")
    faster = step_of(run("--launches", path, "--no-instructions", "--gpu", "h200"))[0]
    check(faster < milliseconds, "more memory rate makes a step no faster")
    slower = step_of(run("--launches", path, "--no-instructions", "--assume", "gap=11e-6"))[0]
    check(abs(slower - milliseconds - 4 * 0.01) < 1e-3, f"gaps longer by 10 us make {slower} of {milliseconds} ms")
    ordered = step_of(run("--launches", path, "--no-instructions", "--ordered"))[0]
    check(abs(ordered - milliseconds - 2 * 1e3 * (GPU.gap - GPU.early_gap)) < 1.1e-3, f"ordered: {ordered} ms")
    check(run("--launches", path, "--assume", "gab=1").returncode == 2, "accepts an unknown constant")
    end = "graph\t6\n"
    for wrong in ("nothing\n", text, text.replace("264x1x1", "264x1") + end, text.replace("\t64000", "") + end):
        path.write_text(wrong, encoding="utf-8")
        done = run("--launches", path, "--no-instructions")
        check(done.returncode == 2 and "cuda_cost.py: " in done.stderr, f"accepts {wrong[:80]!r}")
    check(run("--launches", folder / "none").returncode == 2, "accepts a missing file")
    check(run("--build", folder).returncode == 2, "accepts a build without record_step")


# Two steps of three launches, the second of which ends before the first one does; the third is not in the estimate.
def check_measurement(folder):
    timeline, step, launches = folder / "timeline", folder / "step", folder / "launches"
    lines = ["start\tend\tgraph\tstream\tblocks\tthreads\tregisters\tbytes\tname", "5\t9\t0\t1\t1\t1\t1\t0\tearlier"]
    for start in (10_000, 50_000):
        for begin, end, blocks, threads, name in ((0, 4000, 264, 128, "tensor<64>"), (1000, 3000, 1, 64, "sums"),
                                                  (5000, 9000, 7, 32, "other")):
            lines.append(f"{start + begin}\t{start + end}\t3\t1\t{blocks}\t{threads}\t8\t0\t{name}")
    timeline.write_text("\n".join(lines) + "\n", encoding="utf-8")
    bench = {launches: folder / f"bench-{launches}" for launches in (3, 4)}
    for count, path in bench.items():
        path.write_text(json.dumps({"rows": [{"ms": 1}, {"ms": 2, "launches": count}]}), encoding="utf-8")
    command = [SCRIPT.parent / "gpu_timeline.py", timeline]
    done = subprocess.run([*command, bench[3]], capture_output=True, text=True, check=False)
    step.write_text(done.stdout, encoding="utf-8")
    rows = [line.split("\t") for line in done.stdout.splitlines()[1:]]
    check([row[:3] for row in rows[:-1]] == [["0.00", "4.00", "4.00"], ["1.00", "2.00", "0.00"], ["5.00", "4.00", "5.00"]],
          f"the step is {done.stdout}{done.stderr}")
    check(rows[-1] == ["9.00", "step of 3 launches, median of 2"], f"the whole step is {rows[-1]}")
    check(subprocess.run([*command, bench[4]], capture_output=True, check=False).returncode == 1, "accepts 4 of 3 launches")
    text = "\n".join("\t".join(map(str, line)) for line in [COLUMNS, *LAUNCHES]) + "\ngraph\t6\n"
    launches.write_text(text, encoding="utf-8")
    done = run("--launches", launches, "--no-instructions", "--measured", step)
    for row in (r" +- +- +1 +5\.0  7 x 32 +other", r" +1 +[0-9.]+ +1 +4\.0  264 x 128 +tensor<64>",
                r" +2 +[0-9.]+ +1 +0\.0  1 x 64 +sums", r" +3 +[0-9.]+ +3 +9\.0  all"):
        check(re.search(f"^{row}$", done.stdout, re.MULTILINE), f"no row {row} in {done.stdout}{done.stderr}")
    check(run("--launches", launches, "--no-instructions", "--measured", timeline).returncode == 2,
          "accepts a measurement of another kind")


def check_instructions():
    lines = cuda_sass.functions_of(DISASSEMBLY)["kernel"]
    wide, narrow = (cuda_sass.mix_of(lines, has_narrow) for has_narrow in (False, True))
    check(len(wide.loops) == 1, f"{len(wide.loops)} loops")
    loop = wide.loops[0].count
    check((loop.instructions, loop.mma, loop.bytes) == (4, 2, 16), f"a loop of {loop}")
    check(wide.once.fma == 2 and narrow.once.fma == 3, f"took {wide.once} and {narrow.once}")
    # Each of 10 warps makes 12 products in six passes.
    run_counts = {"mma": 120, "bytes": 10 * (6 * 16 + 4), "shared": 0, "exchanges": 0}
    passes = wide.passes(10, run_counts)
    check(near(passes[0], 60), f"{passes} passes")
    instructions, fma = wide.executed(10, passes)
    check(near(instructions, 10 * (wide.once.instructions + 6 * 4)), f"{instructions} instructions")
    check(fma == 20, f"{fma} multiply-adds")


# A loop that waits for its own load, the same with a second load beside the first, one whose load is used a pass later,
# and one with a copy to shared memory that is waited for a pass later.
LOOPS = {
    "own": ("LDG.E.128 R4, desc[UR4][R2.64]", "HMMA.16816.F32.BF16 R8, R4, R6, R8"),
    "both": ("LDG.E.128 R4, desc[UR4][R2.64]", "LDG.E.128 R12, desc[UR4][R2.64]", "HMMA.16816.F32.BF16 R8, R4, R6, R8",
             "HMMA.16816.F32.BF16 R8, R12, R6, R8"),
    "ahead": ("HMMA.16816.F32.BF16 R8, R4, R6, R8", "MOV R4, R12", "LDG.E R12, desc[UR4][R2.64]", *["BAR.SYNC 0x0"] * 9),
    "copies": ("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", "LDGDEPBAR", "DEPBAR.LE SB0, 0x1", *["BAR.SYNC 0x0"] * 9),
}


def clocks_of_pass(name):
    code = "\n".join(f"        /*{16 * at:04x}*/                   {words} ;" for at, words in enumerate(LOOPS[name]))
    text = f".text.kernel:\n.L_x_0:\n{code}\n        /*0f00*/               @P0 BRA `(.L_x_0) ;\n        /*0f10*/        EXIT ;\n"
    mix = cuda_sass.mix_of(cuda_sass.functions_of(text)["kernel"], False)
    times = [mix.clocks(1, [float(passes)], cuda_schedule.Clocks(memory=600, barrier=60, dependent=4))
             for passes in (100, 101)]
    return times[1] - times[0]


def check_schedule():
    wanted = {"own": 600 + 2,  # until the load is there, and two more instructions
              "both": 1 + 600 + 33 + 2,  # the second load begins a clock later, its product waits for the first one
              "ahead": 600 + 2,  # the move waits for the load of the pass before, which then begins behind it
              "copies": 2 + 9 * 61 + 2}  # the wait for the copy of the pass before has passed
    for name, clocks in wanted.items():
        got = clocks_of_pass(name)
        check(abs(got - clocks) <= 2, f"a pass of the loop '{name}' takes {got} clocks, not {clocks}")
    reads = {"HMMA.16816.F32.BF16 R8, R4, R20, R12": ("R", {4, 5, 6, 7, 12, 13, 14, 15, 20, 21}),
             "STG.E.128 desc[UR4][R2.64+0x10], R8": ("R", {2, 3, 8, 9, 10, 11}),
             "SHFL.BFLY PT, R8, R4, 0x1, 0x1f": ("R", {4}),
             "@!P0 IMAD.WIDE R8, R4, 0x4, R6": ("P", {0})}
    for text, (kind, numbers) in reads.items():
        line = f"        /*0000*/                   {text} ;"
        one = cuda_sass.blocks_of([line])[0].code[0]
        got = {number for found, number in one.reads if found == kind}
        check(got == numbers, f"{text} reads {kind} {sorted(got)}")
    one = cuda_sass.blocks_of(["        /*0000*/                   ISETP.GE.AND P1, PT, R4, R5, PT ;"])[0].code[0]
    check(one.writes == [("P", 1)] and ("R", 4) in one.reads, f"a comparison is {one}")


def check_waits():
    wait, begin = "        /*0000*/                   ACQBULK ;\n", ".text.kernel:\n"
    read = DISASSEMBLY.partition(".L_x_0:")[0]
    for text, waits in ((DISASSEMBLY, False), (DISASSEMBLY.replace(begin, begin + wait), True),
                        (DISASSEMBLY.replace(".L_x_1:\n", ".L_x_1:\n" + wait), False)):
        lines = cuda_sass.functions_of(text)["kernel"]
        check(cuda_sass.waits_first(lines) == waits, f"waits first: not {waits} in {text}")
    lines = cuda_sass.functions_of(read.replace("MOV R1, R2", "LDG.E.64 R4, desc[UR4][R2.64]") + wait)["kernel"]
    check(not cuda_sass.waits_first(lines), "a read before the wait passes")


def check_recorded(build, folder):
    wanted = subprocess.run([SCRIPT.parent / "recent.py", "kernels", "scripts/cuda_cost.py", "scripts/cuda_sass.py",
                             "scripts/cuda_schedule.py", "tests/bench/record_step.cpp", "tests/kernels/cuda_cost.py"]).returncode
    if wanted:
        check(wanted == 77, "scripts/recent.py failed")
        return
    subprocess.run(["cmake", "--build", build, "--target", "record_step"], stdout=subprocess.DEVNULL)
    if not (build / "record_step").exists():
        print("SKIPPED: a recorded step: this build has no record_step (tests/bench/tests.cmake)")
        return
    saved = folder / "saved"
    options = ("--model", "encoder-small", "--rank", 4, "--batch", 1, "--seq", 8, "--no-instructions")
    first = run("--build", build, *options, "--save", saved)
    _, launches, graph = step_of(first)
    check(launches == graph > 50, f"{launches} launches, {graph} calls in the graph")
    check(run("--launches", saved, *options).stdout == first.stdout, "saved launches have other sums")
    recorded, _ = cuda_cost.launches_of(saved.read_text(encoding="utf-8"))
    late = [launch for launch in recorded if launch["ordered"] > 0]
    check(0 < sum(launch["ordered"] for launch in late) < launches / 10, f"{late} wait for the launch before")
    unnamed = {launch["kernel"] for launch in recorded if re.fullmatch("[0-9a-f]+", launch["kernel"])}
    check(not unnamed, f"kernels without names: {unnamed}")
    fused = [launch for launch in recorded if "tt_forward_fused<Bf16" in launch["kernel"]]
    check(fused and all(launch["products"] > 0 for launch in fused), "no products of the fused forward")
    decays = [launch for launch in recorded if launch["kernel"] in cuda_cost.STEPS_OF_WORK]
    check(decays and all(launch["written"] > 0 for launch in decays), "no decay of the weights' norms")
    check(any(launch["op"] == "adamw" and launch["written"] > 0 for launch in recorded), "no update")
    # A norm writes its input and its output in bf16, and two numbers per token.
    norms = [launch for launch in recorded if launch["op"] == "norm_forward" and launch["count"] > 1]
    for launch in norms:
        tokens, columns = map(int, launch["shape"].split(" x "))
        written = launch["written"] - 2 * 2 * tokens * columns
        check(0 < written <= 2 * (4 * tokens + 2 * 32), f"a norm of {launch['shape']} writes {launch['written']} bytes")
    check(norms, "no norms")


def check_compiled(folder):
    nvcc, nvdisasm, missing = cuda_cost.find_tools(cuda_cost.options_of([]))
    if missing:
        print(f"SKIPPED: a disassembly: {', '.join(missing)} not found")
        return
    kernels = cuda_cost.disassembled("norm", folder, nvcc, nvdisasm)
    check("add_partials" in kernels, f"no kernel add_partials, but {sorted(kernels)}")
    forward = kernels["norm: forward<Bf16, 3>"]
    mix = forward.mix(False)
    check(0 < mix.registers <= 128 and mix.loops, f"a norm has {mix}")
    check(cuda_cost.disassembled("norm", folder, "false", nvdisasm).keys() == kernels.keys(), "compiled again")


def main():
    build = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        check_sums(pathlib.Path(name))
        check_measurement(pathlib.Path(name))
        check_instructions()
        check_schedule()
        check_waits()
        check_recorded(build, pathlib.Path(name))
        check_compiled(pathlib.Path(name))
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
