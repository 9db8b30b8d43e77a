"""Codes and steps of GPTQ for one layer on every grid, written from the published formulas with numpy.

    python3 tests/oracle/gptq.py > tests/oracle/gptq.h

needs numpy. The formulas are those of Frantar et al., arXiv 2210.17323, algorithm 1: H = X'X + damping mean(diag) I
(a factor of H cancels), U the upper Cholesky factor of its inverse, inputs in their order. Input i is rounded, and its
error over U_ii times row i of U is taken from the inputs that follow, one input at a time and without blocks of them.
A group has 32 inputs, or 64 or 128. As in the program's choices (docs/decisions.md, "Steps of GPTQ"), the steps of a group are
chosen when its first input comes, from the numbers as they are then, each weighed by 1 / U_ii^2, which is its weight in
the published loss. Coordinate descent is left out. The script ends with an error if a code or a step is near a tie.
"""

import numpy as np

IN, OUT, TOKENS, DAMPING = 64, 48, 160, 0.01
# Name, group, number of codes, code of the number 0 (of q4_1: of its least number), smallest part of the range to try.
GRIDS = [("q8_0", 32, 255, 127.0, 0.98), ("q4_1", 32, 16, 0.0, 0.6), ("q4_0", 32, 16, 8.0, 0.6),
         ("q3_0", 32, 8, 3.5, 0.4), ("q2_0", 32, 4, 1.5, 0.4), ("q3_0g64", 64, 8, 3.5, 0.4),
         ("q2_0g128", 128, 4, 1.5, 0.4)]


def draws(count, seed):
    """Whole numbers from -2048 to 2047 by a linear congruential generator (Knuth; Numerical Recipes)."""
    numbers = []
    for _ in range(count):
        seed = (1664525 * seed + 1013904223) % 2**32
        numbers.append((seed >> 20) - 2048)
    return np.array(numbers, float)


def half(value):
    return np.float32(np.float16(np.float32(value)))


class Grid:
    def __init__(self, name, group, codes, zero, shrink):
        self.group = group
        self.affine, self.signs = name == "q4_1", (1, -1) if name == "q4_0" else (1,)
        self.codes, self.zero, self.shrink = codes, zero, shrink

    def code(self, step, values):
        exact = (values - float(step[1])) / float(step[0]) + self.zero
        return np.clip(np.rint(exact), 0, self.codes - 1), exact

    def level(self, step, codes):
        return (step[0] * (codes - self.zero).astype(np.float32) + step[1]).astype(float)

    def loss(self, step, values, weights):
        return float(np.sum(weights * (values - self.level(step, self.code(step, values)[0]))**2))

    def first_tries(self, values):
        if self.affine:
            middle, reach = (values.min() + values.max()) / 2, (values.max() - values.min()) / 2
            parts = [self.shrink + (1.04 - self.shrink) * i / 8 for i in range(9)]
            return [(half(reach * (low + high) / 15), half(middle - reach * low)) for low in parts for high in parts]
        largest = values[np.argmax(np.abs(values))]
        scales = [(self.shrink + (1.04 - self.shrink) * i / 18) * largest / self.zero for i in range(19)]
        return [(half(sign * scale), np.float32(0)) for scale in scales for sign in self.signs]

    def least_squares(self, step, values, weights):
        codes = self.code(step, values)[0] - self.zero
        columns = [codes, np.ones_like(codes)] if self.affine else [codes]
        root = np.sqrt(weights)
        found = np.linalg.lstsq(np.stack(columns, 1) * root[:, None], values * root, rcond=None)[0]
        return half(found[0]), half(found[1]) if self.affine else np.float32(0)

    def step(self, values, weights):
        tries = set(self.first_tries(values))
        losses = sorted((self.loss(step, values, weights), step) for step in tries)
        assert losses[1][0] > losses[0][0] * (1 + 1e-9), "two steps tie"
        best_loss, best = losses[0]
        for _ in range(3):
            step = self.least_squares(best, values, weights)
            loss = self.loss(step, values, weights)
            if loss < best_loss:
                best_loss, best = loss, step
        return best


def gptq(weight, moment, grid):
    damped = moment + DAMPING * np.mean(np.diag(moment)) * np.eye(IN)
    root = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, codes, steps = weight.copy(), np.zeros((IN, OUT), int), []
    for i in range(IN):
        if i % grid.group == 0:
            group = slice(i, i + grid.group)
            steps.append([grid.step(left[group, line], 1 / np.diag(root)[group]**2) for line in range(OUT)])
        for line in range(OUT):
            code, exact = grid.code(steps[-1][line], left[i, line])
            assert abs(exact - np.floor(exact) - 0.5) > 1e-7, "a code is near a tie"
            codes[i, line] = code
            error = (left[i, line] - grid.level(steps[-1][line], code)) / root[i, i]
            left[i + 1:, line] -= error * root[i, i + 1:]
    return codes, steps


def bits(value):
    return f"{np.float16(value).view(np.uint16):04x}"


own, other = draws(IN * OUT, 1).reshape(IN, OUT), draws(IN * OUT, 2).reshape(IN, OUT)
weight = own * other / 2**22
shared = draws(TOKENS * 8, 3).reshape(TOKENS, 8)
inputs = draws(TOKENS * IN, 4).reshape(TOKENS, IN) + 3 * shared[:, np.arange(IN) % 8]
moment = inputs.T @ inputs  # whole numbers below 2^53

print("// Groups of GPTQ, made by tests/oracle/gptq.py.")
print("// clang-format off")
print("#pragma once\n\nnamespace oracle {\n")
print("// [48 outputs][groups], hexadecimal: scale and least number in half precision, 4 digits each; codes, 2 each.")
for name, *facts in GRIDS:
    codes, steps = gptq(weight, moment, Grid(name, *facts))
    print(f"inline constexpr const char* gptq_{name}[] = {{")
    for line in range(OUT):
        groups = []
        for number, step in enumerate(steps):
            first = number * facts[0]
            digits = "".join(f"{code:02x}" for code in codes[first:first + facts[0], line])
            groups.append(f'"{bits(step[line][0])}{bits(step[line][1])}{digits}"')
        print(f"    {', '.join(groups)},")
    print("};")
print("\n}  // namespace oracle")
