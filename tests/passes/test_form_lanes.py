"""Random kernels whose lanes exchange values, against the same program on NumPy vectors of one element a lane."""

import importlib.util
import random

import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.core import walk
from tilekit.passes.form_lanes import form_lanes
from tilekit.runtime.arguments import types_of

LANES = 6
NAMES = ("x0", "x1", "x2")
TILES = ("t0", "t1")


class Program:
    """Writes a kernel and its NumPy twin, line by line."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kernel: list[str] = []
        self.twin: list[str] = []
        self.depth = 1

    def both(self, text: str, twin: str | None = None) -> None:
        self.kernel.append("    " * self.depth + text)
        self.twin.append("    " * self.depth + (text if twin is None else twin))

    def name(self) -> str:
        return self.random.choice(NAMES)

    def value(self) -> str:
        return self.random.choice([*NAMES, "lane", "n", str(self.random.randrange(5))])

    def expression(self) -> str:
        return f"{self.value()} {self.random.choice('+-*')} {self.value()}"

    def statements(self, count: int, levels: int) -> None:
        for _ in range(count):
            kinds = [self.assign, self.tile, self.untile, self.put, self.get, self.accumulate, self.add, self.where]
            kinds += [self.own_loop, self.own_branch]
            if levels:
                kinds += [lambda: self.branch(levels - 1), lambda: self.loop(levels - 1)]
            self.random.choice(kinds)()

    def assign(self) -> None:
        text = f"{self.name()} = {{}}"
        value = self.expression()
        self.both(text.format(value), text.format(f"i32({value})"))

    def tile(self) -> None:
        t, x = self.random.choice(TILES), self.name()
        self.both(f"tk.tile_assign({t}, tk.tile({x}))", f"{t} = {x}.copy()")

    def untile(self) -> None:
        x, t = self.name(), self.random.choice(TILES)
        self.both(f"{x} = tk.untile({t})", f"{x} = {t}.copy()")

    def put(self) -> None:
        t, x = self.random.choice(TILES), self.value()
        shift = self.random.randrange(LANES)
        index = f"(lane + {shift}) % {LANES}"
        self.both(f"{t}[{index}] = {x}", f"{t} = {t}.copy(); {t}[{index}] = {x}")

    def get(self) -> None:
        t, x, shift = self.random.choice(TILES), self.name(), self.random.randrange(LANES)
        self.both(f"{x} = {t}[(lane + {shift}) % {LANES}]", f"{x} = {t}[(lane + {shift}) % {LANES}].copy()")

    def accumulate(self) -> None:
        t, x, place = self.random.choice(TILES), self.value(), self.random.randrange(LANES)
        twin = f"{t} = {t}.copy(); {t}[{place}] += i32({x}).sum(dtype=np.int32)"
        self.both(f"{t}[{place}] += {x}", twin)

    def add(self) -> None:
        t, u = self.random.choice(TILES), self.random.choice(TILES)
        self.both(f"{t} += {u} * 3", f"{t} = i32({t} + {u} * 3)")

    def where(self) -> None:
        x, a, b, c = self.name(), self.name(), self.name(), self.random.randrange(4)
        self.both(f"{x} = tk.where({a} > {c}, {a}, {b})", f"{x} = np.where({a} > {c}, {a}, {b})")

    def own_loop(self) -> None:
        x, value, width = self.name(), self.random.choice(["lane", "3", "n"]), self.random.randrange(1, 4)
        self.both(f"for j in range(lane % {width}):", f"for j in range({width}):")
        self.kernel.append("    " * (self.depth + 1) + f"{x} = {x} * 2 + {value} - j")
        step = f"{x} = np.where(j < lane % {width}, i32({x} * 2 + {value} - j), {x})"
        self.twin.append("    " * (self.depth + 1) + step)

    def own_branch(self) -> None:
        x, other, c = self.name(), self.name(), self.random.randrange(LANES)
        value = self.expression()
        self.kernel += [
            "    " * self.depth + f"if {other} > {c}:",
            "    " * self.depth + f"    {x} = {value}",
        ]
        self.twin.append("    " * self.depth + f"{x} = np.where({other} > {c}, i32({value}), {x})")

    def branch(self, levels: int) -> None:
        self.both(f"if n > {self.random.randrange(4)}:")
        self.depth += 1
        self.statements(self.random.randrange(1, 4), levels)
        self.depth -= 1
        if self.random.random() < 0.5:
            self.both("else:")
            self.depth += 1
            self.statements(self.random.randrange(1, 3), levels)
            self.depth -= 1

    def loop(self, levels: int) -> None:
        self.both(f"for k{self.depth} in range(n - {self.random.randrange(3)}):")
        self.depth += 1
        self.statements(self.random.randrange(1, 4), levels)
        self.depth -= 1

    def source(self) -> str:
        self.both("_i, lane = tk.tid()", f"lane = np.arange({LANES}, dtype=np.int32)")
        for index, x in enumerate(NAMES):
            self.both(f"{x} = lane * {index + 1}", f"{x} = i32(lane * {index + 1})")
        for t in TILES:
            self.both(f"{t} = tk.tile_ones(shape={LANES}, dtype=tk.int32)", f"{t} = np.ones({LANES}, np.int32)")
        self.statements(10, 2)
        for index, x in enumerate((*NAMES, *TILES)):
            stored = x if x in TILES else f"tk.tile({x})"
            self.both(f"tk.tile_store(out, {stored}, offset={index * LANES})", f"out[{index}] = {x}")
        kernel = "\n".join(self.kernel)
        twin = "\n".join(self.twin)
        return (
            "import numpy as np\nimport tilekit as tk\n\n\n"
            f"@tk.kernel\ndef program(n: int, out: tk.array1d[tk.int32]):\n{kernel}\n\n\n"
            f"def i32(x):\n    return np.broadcast_to(np.asarray(x, np.int32), ({LANES},))\n\n\n"
            f"def twin(n, out):\n{twin}\n"
        )


def module_of(source, path):
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed, tmp_path):
    source = Program(seed).source()
    module = module_of(source, tmp_path / f"lanes_{seed}.py")
    for n in (0, 1, 4):
        wanted = np.zeros((5, LANES), np.int32)
        with np.errstate(over="ignore"):
            module.twin(np.int32(n), wanted)
        for device in ("interpret", "cpu") if seed < 8 else ("interpret",):
            out = np.zeros(5 * LANES, np.int32)
            tk.launch_tiled(module.program, dim=1, inputs=[n], outputs=[out], block_dim=LANES, device=device)
            assert out.reshape(5, LANES).tolist() == wanted.tolist(), f"{device}, n={n}\n{source}"


@tk.kernel
def one_group(out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    x = lane * 2
    if x > 4:
        x = x - 1
    for k in range(lane):
        x += k
    tk.tile_store(out, tk.tile(x))


def test_code_between_tile_operations_is_one_loop():
    function = one_group.trace(types_of(one_group, [("int32", 1)]), tk.ir.context.LaunchForm(True, 1, 4))
    names = [op.builtin.name for op in form_lanes(function, 4).body.ops]
    assert names.count("lane_loop") == 1
    assert "lane_index" not in [op.builtin.name for op in walk(form_lanes(function, 4).body)]
