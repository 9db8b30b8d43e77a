"""Instructions of CUDA kernels from the text of nvdisasm: how many a warp executes once, and how many in loops."""

import dataclasses
import re

import cuda_schedule

LOOP = 4  # passes of a loop for each pass of the one around it, where no count of the run tells more
ROUNDS = 60
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}  # bytes of a thread; 4 without such a word
NARROW = ("U8", "S8", "U16", "S16")
GLOBAL = ("LDG", "STG", "LDGSTS", "LD", "ST", "RED", "ATOMG")
ATOMIC = ("ATOM", "REDG")
BULK = ("UBLKCP", "UTMALDG", "UTMASTG")
SHARED = ("LDS", "STS", "LDSM", "LDGSTS", "ATOMS")
MMA = ("HMMA", "HGMMA")
EXCHANGES = ("SHFL", "VOTE")
ENDS = ("EXIT", "RET", "BRA", "BRX", "JMP")
LABEL = re.compile(r"^([.$]\S+):\s*$")
LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
TARGET = re.compile(r"^(.*?)`\((\.L_x_\d+)\)")


@dataclasses.dataclass
class Count:
    """Of a warp; bytes are those of one of its threads."""
    instructions: float = 0
    fma: float = 0
    mma: float = 0
    bytes: float = 0  # of device memory
    shared: float = 0  # bytes of shared memory
    exchanges: float = 0
    barriers: float = 0

    def add(self, words):
        if words[0] == "NOP":
            return
        width = next((WIDTHS[word] for word in words[1:] if word in WIDTHS), 4)
        if words[0] == "LDSM":
            width = 4 * int(words[-1]) if words[-1].isdigit() else 4  # LDSM.16.M88.4: four blocks of a matrix
        self.instructions += 1
        self.fma += words[0] == "FFMA"
        self.mma += words[0] in MMA
        self.bytes += width * (words[0] in GLOBAL)
        self.shared += width * (words[0] in SHARED)
        self.exchanges += words[0] in EXCHANGES
        self.barriers += words[0] == "BAR"


FITTED = ("mma", "bytes", "shared", "exchanges")


@dataclasses.dataclass(eq=False)
class Loop:
    count: Count  # without loops inside it
    around: "Loop | None"
    depth: int

    def is_fitted(self):
        return any(getattr(self.count, name) for name in FITTED)


@dataclasses.dataclass
class Mix:
    """Instructions of one kernel: outside of loops, and of each loop, outer ones first."""
    once: Count = dataclasses.field(default_factory=Count)
    loops: list = dataclasses.field(default_factory=list)
    items: list = dataclasses.field(default_factory=list)  # in order: instructions, and loops as (number, items)
    registers: int = 0
    static_shared: int = 0

    def passes(self, warps, run):
        """Passes of each loop by all warps of a launch. `run` has its sums of FITTED, in units of warps.

        SASS shows no trip counts. Those of the loops begin with LOOP passes for each pass of the loop around, and are
        changed in turn until the sums are those of the run: a loop's passes in proportion to its share of a sum. A loop
        without any of FITTED keeps LOOP passes for each pass of the loop around.
        """
        passes = [float(warps * LOOP ** (loop.depth - 1)) for loop in self.loops]
        for _ in range(ROUNDS):
            for name in FITTED:
                parts = [getattr(loop.count, name) * times for loop, times in zip(self.loops, passes)]
                have = sum(parts)
                if have > 0:
                    factor = max(run[name] - warps * getattr(self.once, name), 1e-3) / have
                    passes = [times * factor ** (part / have) for times, part in zip(passes, parts)]
        for at, loop in enumerate(self.loops):
            if not loop.is_fitted():
                passes[at] = LOOP * (passes[self.loops.index(loop.around)] if loop.around else warps)
        return passes

    def executed(self, warps, passes):
        """Instructions and FFMAs of all warps."""
        return [warps * getattr(self.once, name) +
                sum(getattr(loop.count, name) * times for loop, times in zip(self.loops, passes))
                for name in ("instructions", "fma")]

    def clocks(self, warps, passes, clocks):
        """Of a warp that makes the mean of the passes and runs alone."""
        def of_each(at):
            around = self.loops[at].around
            outer = passes[self.loops.index(around)] if around else warps
            return passes[at] / outer if outer > 0 else 0
        return cuda_schedule.clocks_of(self.items, of_each, clocks)


@dataclasses.dataclass
class Block:
    code: list  # instructions
    next: list  # numbers of the blocks that may follow


def blocks_of(lines):
    """Basic blocks of a function, in the order of the text."""
    blocks, labels, waiting = [Block([], [])], {}, []
    for line in lines:
        if label := LABEL.match(line):
            if label[1].startswith("$__internal"):
                break  # rare cases of divisions
            if blocks[-1].code:
                blocks[-1].next.append(len(blocks))
                blocks.append(Block([], []))
            labels[label[1]] = len(blocks) - 1
        elif match := LINE.match(line):
            predicate, words, operands = match[1], match[2].split("."), match[3]
            block = blocks[-1]
            block.code.append(cuda_schedule.instruction_of(words, predicate, operands))
            target = TARGET.match(operands) if words[0] in ("BRA", "WARPSYNC") else None
            if target:
                waiting.append((block, target[2]))
            if words[0] in ENDS or target:
                always = not predicate and words[0] in ENDS and not (target and target[1].strip())
                if not always:
                    block.next.append(len(blocks))
                blocks.append(Block([], []))
    for block, label in waiting:
        if label in labels:
            block.next.append(labels[label])
    for block in blocks:
        block.next = [at for at in block.next if at < len(blocks)]
    return blocks


def order_of(blocks):
    """The blocks that can be reached, each before those that follow it but for jumps back."""
    seen, order, stack = {0}, [], [(0, iter(blocks[0].next))]
    while stack:
        at, following = stack[-1]
        step = next((other for other in following if other not in seen), None)
        if step is None:
            order.append(at)
            stack.pop()
        else:
            seen.add(step)
            stack.append((step, iter(blocks[step].next)))
    return order[::-1]


def dominators_of(blocks, order, before):
    """The next block above each one through which all paths to it lead (Cooper, Harvey and Kennedy 2001)."""
    place = {at: i for i, at in enumerate(order)}
    above, changed = {order[0]: order[0]}, True
    while changed:
        changed = False
        for at in order[1:]:
            known = [other for other in before[at] if other in above]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    if place[new] > place[other]:
                        new = above[new]
                    else:
                        other = above[other]
            if above.get(at) != new:
                above[at], changed = new, True
    return above


def loops_of(blocks):
    """The sets of blocks of the loops. A jump back from code that was moved away makes no loop: its target has other
    ways to it."""
    order = order_of(blocks)
    before = {at: [] for at in order}
    for at in order:
        for other in blocks[at].next:
            before[other].append(at)
    above = dominators_of(blocks, order, before)

    def leads_through(at, head):
        while at != head and above[at] != at:
            at = above[at]
        return at == head

    loops, jumps = {}, []
    for at in order:
        for head in blocks[at].next:
            if not leads_through(at, head):
                continue
            jumps.append((at, head))
            body, stack = loops.setdefault(head, {head}), [at]
            while stack:
                inside = stack.pop()
                if inside not in body:
                    body.add(inside)
                    stack.extend(before[inside])
    return loops, jumps


def longest_path(blocks, loops, jumps, weights):
    """The blocks of the way through the function with the most instructions, each loop passed once: of alternatives,
    such as the activations of a layer, one is taken."""
    ways = [Block([], [other for other in block.next if (at, other) not in jumps]) for at, block in enumerate(blocks)]
    for at, head in jumps:  # from the end of a loop's pass to where the loop is left
        ways[at].next += [other for inside in loops[head] for other in blocks[inside].next if other not in loops[head]]
    order = order_of(ways)
    place = {at: i for i, at in enumerate(order)}
    best = {}
    for at in reversed(order):
        behind = [best[other] for other in ways[at].next if place[other] > place[at]]
        length, path = max(behind, key=lambda way: way[0], default=(0, None))
        best[at] = (weights.get(at, 0) + length, (at, path))
    taken, path = set(), best[0][1]
    while path:
        taken.add(path[0])
        path = path[1]
    return taken


def mix_of(lines, has_narrow):
    """From the lines of a function's disassembly. Without accesses of one or two bytes to device memory in a run
    (has_narrow), it did not take the ways that have them."""
    blocks = blocks_of(lines)
    loops, jumps = loops_of(blocks)
    weights, around = {}, {}
    for at, block in enumerate(blocks):
        around[at] = sorted((head for head, body in loops.items() if at in body), key=lambda head: -len(loops[head]))
        weights[at] = LOOP ** len(around[at]) * len(block.code)
        opcodes = [one.words for one in block.code]
        is_other = not has_narrow and any(words[0] in GLOBAL and set(words) & set(NARROW) for words in opcodes)
        # Exchanges between threads that have parted: kernels avoid them.
        if is_other or any(words[:2] == ["WARPSYNC", "COLLECTIVE"] for words in opcodes):
            weights[at] = -1e9
    mix, known, taken = Mix(), {}, longest_path(blocks, loops, jumps, weights)
    for at in sorted(taken, key=lambda at: len(around[at])):
        if weights[at] < 0:
            continue
        outer = None
        for depth, head in enumerate(around[at], 1):  # outer loops first
            if head not in known:
                known[head] = Loop(Count(), outer, depth)
                mix.loops.append(known[head])
            outer = known[head]
        for one in blocks[at].code:
            (outer.count if outer else mix.once).add(one.words)
    mix.items = items_of(blocks, [at for at in order_of(blocks) if at in taken and weights[at] >= 0], around,
                         {head: mix.loops.index(loop) for head, loop in known.items()})
    return mix


def items_of(blocks, path, around, numbers):
    """The instructions of a path in order, with those of a loop where it begins."""
    items, lists = [], {}
    for at in path:
        inner = items
        for head in around[at]:
            if head not in lists:
                lists[head] = []
                inner.append((numbers[head], lists[head]))
            inner = lists[head]
        inner.extend(blocks[at].code)
    return items


def waits_first(lines):
    """Whether a kernel waits for the launch before it (griddepcontrol.wait, ACQBULK in SASS) in its first block of code,
    before any access to device memory."""
    for one in blocks_of(lines)[0].code:
        if one.words[0] == "ACQBULK":
            return True
        if one.words[0] in GLOBAL + ATOMIC + BULK:
            return False
    return False


def functions_of(disassembly):
    """{mangled name of a kernel: its lines}"""
    functions, name = {}, None
    for line in disassembly.splitlines():
        if line.startswith(".text.") and line.endswith(":"):
            name = line[len(".text."):-1]
            functions[name] = []
        elif name:
            functions[name].append(line)
    return functions
