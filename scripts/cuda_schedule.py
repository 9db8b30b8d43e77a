"""Clocks that a warp takes for a kernel if it runs alone: instructions are issued in order, and each waits for the
registers that it reads."""

import dataclasses
import re

# Clocks from the issue of an instruction until another one can use its result. Shared memory, MMA: Luo et al. 2024
# (arXiv 2402.13499); others: Jia et al. 2018 (arXiv 1804.06826), as far as they measured them, on an older GPU.
LATENCY = {"LDS": 30, "LDSM": 33, "HMMA": 33, "HGMMA": 33, "SHFL": 24, "VOTE": 24, "S2R": 25, "S2UR": 25, "MUFU": 20,
           "R2UR": 12, "LDC": 40, "ULDC": 30, "I2F": 14, "F2I": 14, "I2I": 14, "F2F": 14, "DFMA": 16, "DADD": 16,
           "DMUL": 16, "DSETP": 16, "ATOMS": 60}
MEMORY = ("LDG", "LD", "ATOM", "ATOMG")  # with a result
STORES = ("ST", "STG", "STS", "STL", "RED", "REDG")
WITHOUT_RESULT = STORES + ("LDGSTS", "LDGDEPBAR", "DEPBAR", "BAR", "BRA", "BSSY", "BSYNC", "EXIT", "RET", "MEMBAR", "CCTL",
                           "ERRBAR", "NOP", "WARPSYNC", "YIELD", "ACQBULK", "PREEXIT")
OPERAND = re.compile(r"U?R\d+|U?P\d+")
STEADY = 3  # passes of a loop that are simulated; the others take as long as the last one


@dataclasses.dataclass(frozen=True)
class Clocks:
    memory: float  # of a read from device memory, by the share of it that is in the second-level cache
    barrier: float
    dependent: float


def registers(text, count=1):
    """The registers of an operand; `count` neighbours from each one that is named."""
    found = []
    for name in OPERAND.findall(text):
        kind = name.rstrip("0123456789")
        first = int(name[len(kind):])
        many = 1 if "P" in kind else max(count, 2 if f"{name}.64" in text else 1)
        found.extend((kind, first + i) for i in range(many))
    return found


def width(words):
    """Registers of a result, or of what is stored."""
    if words[0] in ("HMMA", "HGMMA"):
        return 4 if "F32" in words else 2
    if words[0] == "LDSM":
        return int(words[-1]) if words[-1].isdigit() else 1
    if "128" in words:
        return 4
    return 2 if "64" in words or "WIDE" in words or words[0] in ("DFMA", "DADD", "DMUL", "CS2R") else 1


@dataclasses.dataclass
class Instruction:
    words: list  # of the opcode
    reads: list
    writes: list
    pending: int = 0  # DEPBAR: groups of copies that it does not wait for


def instruction_of(words, predicate, operands):
    parts = [part.strip() for part in operands.split(",")] if operands else []
    count, reads, writes = width(words), registers(predicate or ""), []
    if words[0] not in WITHOUT_RESULT and parts:
        if words[0].endswith("SETP") or words[0] == "PLOP3":
            writes, parts = registers(parts[0]) + registers(parts[1] if len(parts) > 1 else ""), parts[2:]
        else:
            while len(parts) > 1 and re.fullmatch(r"U?P\w+", parts[0]):
                writes += registers(parts.pop(0))
            writes += registers(parts.pop(0), count)
            while parts and re.fullmatch(r"U?P\d", parts[0]) and words[0] in ("IADD3", "UIADD3", "LEA", "VOTE"):
                writes += registers(parts.pop(0))
    for at, part in enumerate(parts):
        many = 1
        if words[0] in STORES and "[" not in part:
            many = count
        elif words[0] in ("HMMA", "HGMMA"):
            many = (4, 2, count)[min(at, 2)]
        elif words[0] in ("DFMA", "DADD", "DMUL", "DSETP"):
            many = 2
        reads += registers(part, many)
    pending = int(parts[-1], 16) if words[0] == "DEPBAR" and parts and parts[-1].startswith("0x") else 0
    return Instruction(words, reads, writes, pending)


class Warp:
    def __init__(self, clocks):
        self.clocks = clocks
        self.now = 0.0
        self.ready = {}  # register: when it can be read
        self.copied = 0.0  # when the latest copies to shared memory end
        self.groups = []  # the same for groups of them

    def step(self, one):
        name = one.words[0]
        start = max([self.now, *(self.ready.get(register, 0) for register in one.reads)])
        if name == "BAR":
            start += self.clocks.barrier
        elif name == "LDGSTS":
            self.copied = max(self.copied, start + self.clocks.memory)
        elif name == "LDGDEPBAR":
            self.groups = [*self.groups[-8:], self.copied]
        elif name == "DEPBAR" and one.pending < len(self.groups):
            start = max(start, self.groups[-1 - one.pending])
        latency = self.clocks.memory if name in MEMORY else LATENCY.get(name, self.clocks.dependent)
        for register in one.writes:
            self.ready[register] = start + latency
        self.now = start + 1

    def run(self, items, passes):
        """items: instructions, and loops as (key, items); passes: of a loop for each pass of the one around it."""
        for item in items:
            if isinstance(item, Instruction):
                self.step(item)
                continue
            key, body = item
            times, last = passes(key), 0.0
            whole = min(STEADY, int(times))
            for _ in range(whole):
                begin = self.now
                self.run(body, passes)
                last = self.now - begin
            if whole:
                self.skip((times - whole) * last)
            elif times > 0.01:  # some warps run it
                begin = self.now
                self.run(body, passes)
                self.now = begin + times * (self.now - begin)

    def skip(self, clocks):
        """Later passes of a loop leave registers and copies as much time behind them as the last one did."""
        self.now += clocks
        self.ready = {register: time + clocks for register, time in self.ready.items()}
        self.copied += clocks
        self.groups = [time + clocks for time in self.groups]


def clocks_of(items, passes, clocks):
    warp = Warp(clocks)
    warp.run(items, passes)
    return warp.now
