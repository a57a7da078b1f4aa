"""Building the oracle against one PyTorch, and running it. Shared by the scripts install, record and verify."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DEVICE = ["fake_cudart.c", "fake_driver.c", "fake_state.c"]
SOURCES = ["bench.cpp", "oracle.cpp", "player.cpp", "static_runtime.cpp"]


class Problem(Exception):
    """Something the user can do something about; the message says what."""


def cache_root():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "allocsim-oracle"


def run(command, **options):
    try:
        return subprocess.run([str(word) for word in command], check=True, **options)
    except FileNotFoundError as error:
        raise Problem(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        text = error.stderr or error.stdout or ""
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        tail = "\n".join(text.strip().splitlines()[-15:])
        raise Problem(f"{' '.join(map(str, command[:4]))} ... failed\n{tail}".rstrip()) from error


def release_number(version):
    """20600 for 2.6.0+cu124."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if not found:
        raise Problem(f"cannot read the PyTorch version {version!r}")
    major, minor, patch = map(int, found.groups())
    return major * 10000 + minor * 100 + patch


def read_version(torch_dir):
    """The version and CUDA version that a torch folder says it is, without running it."""
    path = torch_dir / "version.py"
    if not path.is_file():
        raise Problem(f"{torch_dir} has no version.py; is it the folder of an installed torch?")
    text = path.read_text()
    version = re.search(r"^__version__ = '([^']+)'", text, re.M)
    cuda = re.search(r"^cuda(?::[^=]*)? = '([^']+)'", text, re.M)
    if not version:
        raise Problem(f"{path} names no version")
    return version.group(1), cuda.group(1) if cuda else None


def runtime_name(library):
    """The soname and version node of the CUDA runtime that the allocator library asks for; None when it has its own."""
    text = run(["readelf", "-dW", library], capture_output=True, text=True).stdout
    found = re.search(r"NEEDED.*\[(libcudart[^\]]*\.so\.[0-9.]+)\]", text)
    return found.group(1) if found else None


def uses_new_strings(library):
    """Whether the library was built with the present std::string (_GLIBCXX_USE_CXX11_ABI=1)."""
    text = run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True).stdout
    return "__cxx11" in text


def build(torch_dir, out):
    """Builds the oracle for the PyTorch in torch_dir into the folder out; returns the program's path."""
    torch_dir, out = pathlib.Path(torch_dir).resolve(), pathlib.Path(out).resolve()
    version, cuda = read_version(torch_dir)
    library = torch_dir / "lib" / "libc10_cuda.so"
    headers = torch_dir / "include"
    if not library.is_file():
        raise Problem(
            f"PyTorch {version} in {torch_dir} is a CPU-only build: it has no libc10_cuda.so, so there is nothing to "
            "compare with. Install a CUDA build (no GPU is needed)."
        )
    if not (headers / "c10/cuda/CUDACachingAllocator.h").is_file():
        raise Problem(f"PyTorch {version} in {torch_dir} has no headers in include/c10; reinstall the wheel.")
    compiler, c_compiler = os.environ.get("CXX", "g++"), os.environ.get("CC", "gcc")
    for needed in (compiler, c_compiler, "readelf", "nm"):
        if not shutil.which(needed):
            raise Problem(f"{needed} is not installed; the oracle needs a C++20 compiler and binutils.")
    out.mkdir(parents=True, exist_ok=True)
    wanted = runtime_name(library)
    soname = wanted or "libcudart.so.11.0"
    node = out / "version.map"
    node.write_text(f"{soname} {{ global: *; }};\n")
    fake = out / soname
    run(
        [c_compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{soname}",
         f"-Wl,--version-script={node}", "-I", ROOT]
        + [HERE / source for source in DEVICE]
        + ["-o", fake, "-ldl"],
        capture_output=True,
    )
    empty = out / "empty.c"
    empty.write_text("extern int fake_driver_is_loaded;\nint fake_driver_is_loaded;\n")
    # The driver and management libraries are opened by name: empty ones that lead to the simulated runtime.
    stand_ins = [out / "libcuda.so.1", out / "libnvidia-ml.so.1"]
    for stand_in in stand_ins:
        run(
            [c_compiler, "-fPIC", "-shared", f"-Wl,-soname,{stand_in.name}", "-Wl,--no-as-needed", empty,
             "-o", stand_in, fake],
            capture_output=True,
        )
    number = release_number(version)
    digits = re.match(r"(\d+)\.(\d+)", cuda or "11.0")
    cuda_number = int(digits.group(1)) * 1000 + int(digits.group(2)) * 10
    program = out / "oracle"
    run(
        [compiler, "-std=c++20", "-O2", "-w", "-fno-access-control", f"-DORACLE_TORCH={number}",
         f"-DORACLE_STATIC_RUNTIME={int(wanted is None)}",
         f"-DCUDA_VERSION={cuda_number}", f"-D_GLIBCXX_USE_CXX11_ABI={int(uses_new_strings(library))}",
         "-I", ROOT, "-I", HERE / "shim", "-isystem", headers]
        + [HERE / source for source in SOURCES]
        + ["-o", program, "-Wl,--no-as-needed"] + stand_ins + [fake, library, torch_dir / "lib/libc10.so", "-ldl",
           f"-Wl,-rpath,{out}:{torch_dir / 'lib'}", "-Wl,--allow-shlib-undefined"],
        capture_output=True,
    )
    return program


def environment():
    """The environment the oracle runs in: nothing in it may steer the allocator or put in another runtime."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTORCH_", "TORCH_", "CUDA_"))}
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
        kept.pop(name, None)
    return kept


def main(function, arguments):
    """Runs a script's main function and turns a Problem into a message and exit status 2."""
    try:
        sys.exit(function(arguments))
    except Problem as problem:
        print(f"{pathlib.Path(sys.argv[0]).name}: {problem}", file=sys.stderr)
        sys.exit(2)
