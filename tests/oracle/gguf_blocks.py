"""Blocks of the number formats of GGUF and their values, by PyPI's gguf.

    python3 tests/oracle/gguf_blocks.py > tests/oracle/gguf_blocks.h

needs gguf and numpy. Codes are random bytes; scales are ordinary half-precision numbers, one of them negative.
"""

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

random = np.random.default_rng(17)
# Type, bytes of a block, offsets of its half-precision numbers, blocks.
FORMATS = [(Type.Q4_0, 18, [0], 2), (Type.Q4_1, 20, [0, 2], 2), (Type.Q5_0, 22, [0], 2), (Type.Q5_1, 24, [0, 2], 2),
           (Type.Q8_0, 34, [0], 2), (Type.Q4_K, 144, [0, 2], 1), (Type.Q6_K, 210, [208], 1)]


def rows(items, width):
    return "\n".join("    " + " ".join(items[i:i + width]) for i in range(0, len(items), width))


print("// Made by tests/oracle/gguf_blocks.py.")
print("// clang-format off")
print("#pragma once\n\n#include <cstdint>\n\nnamespace oracle {\n")
for kind, size, halves, blocks in FORMATS:
    data = random.integers(0, 256, (blocks, size), dtype=np.uint8)
    for block in range(blocks):
        for offset in halves:
            scale = np.float16(random.uniform(0.01, 0.1) * (-1 if block == 1 else 1))
            data[block, offset:offset + 2] = np.frombuffer(scale.tobytes(), np.uint8)
    values = quants.dequantize(data.reshape(1, -1), kind).reshape(-1)
    print(f"inline constexpr std::uint8_t {kind.name}_bytes[] = {{")
    print(rows([f"{x}," for x in data.reshape(-1)], 24) + "\n};")
    print(f"inline constexpr float {kind.name}_values[] = {{")
    print(rows([f"{float(x).hex()}f," for x in values], 5) + "\n};\n")
print("}  // namespace oracle")
