"""Nine programs that others wrote, how their own builds make them with optimisation and debug
information, and an input of our own making for each.

The rule, written down before any of them was recorded: well-known programs in C++, Rust and Fortran
whose sources a package registry has and whose own build takes minutes; five for mending memtrace,
and four others that are built and recorded once, when that is done.
"""

import random
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

RUST = "CARGO_PROFILE_RELEASE_DEBUG=2 CARGO_PROFILE_RELEASE_STRIP=none cargo build -q --release"


@dataclass(frozen=True)
class Program:
    """A program; `build` and `run` are for the shell, in its folder; `$INPUT` is a path."""

    name: str
    language: str
    registry: str
    package: str
    version: str
    build: str
    run: str
    input: object  # writes the input to a path


def clauses(path: Path):
    """A satisfiable formula: 300,000 variables, three in each of 900,000 clauses."""
    draw = random.Random(1)
    variables, count = 300_000, 900_000
    with path.open("w") as out:
        out.write(f"p cnf {variables} {count}\n")
        for _ in range(count):
            signed = (draw.choice((-1, 1)) * draw.randint(1, variables) for _ in range(3))
            out.write(" ".join(map(str, signed)) + " 0\n")


def table(path: Path):
    """400,000 rows of three columns, 16 MB."""
    draw = random.Random(2)
    with path.open("w") as out:
        out.write("name,count,value\n")
        for row in range(400_000):
            out.write(f"name-{draw.randrange(10**9):09},{row},{draw.random():.12f}\n")


def steps(path: Path):
    """A build of 60,000 steps from 100 files."""
    (path / "in").mkdir(parents=True, exist_ok=True)
    for n in range(100):
        (path / "in" / str(n)).touch()
    lines = (f"build out/{n}: copy in/{n % 100}\n  mode = {n}\n" for n in range(60_000))
    (path / "build.ninja").write_text("rule copy\n  command = cp $in $out\n" + "".join(lines))


def water(path: Path):
    """10,000 molecules of water in a box."""
    path.mkdir(exist_ok=True)
    atoms = ((0.0, 0.0, 0.0, "O"), (0.96, 0.0, 0.0, "H"), (-0.24, 0.93, 0.0, "H"))
    lines = [f"{kind} {x} {y} {z}" for x, y, z, kind in atoms]
    (path / "water.xyz").write_text("\n".join(["3", "water", *lines, ""]))
    (path / "box.inp").write_text(
        f"tolerance 2.0\nfiletype xyz\noutput {path}/out.xyz\nnloop 20\n"
        f"structure {path}/water.xyz\n  number 10000\n"
        "  inside box 0. 0. 0. 110. 110. 110.\nend structure\n"
    )


def proteins(path: Path):
    """Twelve sequences of 400 amino acids, alike in seven of ten places."""
    draw = random.Random(3)
    letters = "ACDEFGHIKLMNPQRSTVWY"
    common = draw.choices(letters, k=400)
    with path.open("w") as out:
        for number in range(12):
            changed = (c if draw.random() < 0.7 else draw.choice(letters) for c in common)
            out.write(f">sequence{number}\n{''.join(changed)}\n")


def picture(path: Path):
    """A PNG of 1,500 × 1,500 pixels in three colours."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    size = 1500
    rows = b"".join(
        b"\0" + bytes(value for x in range(size) for value in (x * y % 251, (x + y) % 256, x % 256))
        for y in range(size)
    )
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b""))


def beam(path: Path):
    """A beam of 20 × 20 × 60 bricks, fixed at one end and loaded at the other."""
    across, along = 21, 61

    def node(i, j, k):
        return 1 + i + across * (j + across * k)

    with path.with_suffix(".inp").open("w") as out:
        out.write("*NODE, NSET=ALL\n")
        for k in range(along):
            for j in range(across):
                for i in range(across):
                    out.write(f"{node(i, j, k)}, {i}.0, {j}.0, {k}.0\n")
        out.write("*ELEMENT, TYPE=C3D8, ELSET=BEAM\n")
        number = 0
        for k in range(along - 1):
            for j in range(across - 1):
                for i in range(across - 1):
                    number += 1
                    square = ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))
                    corners = [node(a, b, c) for c in (k, k + 1) for a, b in square]
                    out.write(f"{number}, {', '.join(map(str, corners))}\n")
        last = across * across
        out.write("*MATERIAL, NAME=STEEL\n*ELASTIC\n210000., 0.3\n")
        out.write("*SOLID SECTION, ELSET=BEAM, MATERIAL=STEEL\n")
        out.write(f"*NSET, NSET=FIXED, GENERATE\n1, {last}\n*BOUNDARY\nFIXED, 1, 3\n")
        out.write("*STEP\n*STATIC, SOLVER=ITERATIVE SCALING\n*CLOAD\n")
        out.write(f"{last * along}, 2, 1000.\n*NODE FILE\nU\n*END STEP\n")
    path.touch()


TRAINING = (
    Program(
        name="MiniSat",
        language="C++",
        registry="Debian",
        package="minisat2",
        version="1:2.2.1-5",
        # Its default target is linked statically, which no preloaded library can record.
        build='make -s lsh sh MINISAT_REL="-O2 -g -D NDEBUG -fpermissive -w"',
        run='LD_LIBRARY_PATH=build/dynamic/lib build/dynamic/bin/minisat -cpu-lim=20 "$INPUT"',
        input=clauses,
    ),
    Program(
        name="Ninja",
        language="C++",
        registry="Debian",
        package="ninja-build",
        version="1.11.1-2~deb12u1",
        build='CXX=g++ CXXFLAGS="-O2 -g" python3 configure.py --bootstrap',
        run='./ninja -C "$INPUT" -n',
        input=steps,
    ),
    Program(
        name="xsv",
        language="Rust",
        registry="crates.io",
        package="xsv",
        version="0.13.0",
        build=RUST,
        run='target/release/xsv sort "$INPUT" -o /dev/null',
        input=table,
    ),
    Program(
        name="ripgrep",
        language="Rust",
        registry="crates.io",
        package="ripgrep",
        version="14.1.1",
        build=RUST,
        run='target/release/rg --multiline --no-mmap --count "9\\nname" "$INPUT"',
        input=table,
    ),
    Program(
        name="Packmol",
        language="Fortran",
        registry="PyPI",
        package="packmol",
        version="21.2.3",
        build='make -s FORTRAN=gfortran FLAGS="-O2 -g"',
        run='./packmol < "$INPUT/box.inp"',
        input=water,
    ),
)

HELD_OUT = (
    Program(
        name="MUSCLE",
        language="C++",
        registry="Debian",
        package="muscle",
        version="1:5.1.0-1",
        build='make -s -C src CXXFLAGS="-g" && cp src/Linux/muscle muscle',
        run='./muscle -align "$INPUT" -output aligned -threads 2',
        input=proteins,
    ),
    Program(
        name="oxipng",
        language="Rust",
        registry="crates.io",
        package="oxipng",
        version="9.1.5",
        build=RUST,
        run='target/release/oxipng -o 1 --out optimised.png "$INPUT"',
        input=picture,
    ),
    Program(
        name="sd",
        language="Rust",
        registry="crates.io",
        package="sd",
        version="1.0.0",
        build=RUST,
        run='cp "$INPUT" copy && target/release/sd name other copy',
        input=table,
    ),
    Program(
        name="CalculiX",
        language="C, Fortran",
        registry="Debian",
        package="calculix-ccx",
        version="2.20-1",
        # Needs Debian's liblapack-dev, libarpack2-dev and libspooles-dev.
        build="make -s -C ccx_2.20/src FC=gfortran"
        ' CFLAGS="-O2 -g -w -I/usr/include/spooles -DARCH=Linux -DSPOOLES -DARPACK -DMATRIXSTORAGE"'
        ' FFLAGS="-O2 -g -w -fallow-argument-mismatch"',
        run='ccx_2.20/src/ccx_2.20 "$INPUT"',
        input=beam,
    ),
)
