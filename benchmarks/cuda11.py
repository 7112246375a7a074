"""CUDA 11's libraries from NVIDIA's wheels, for frameworks that look for them on the system."""

import ctypes
import os
import sys
import sysconfig
import tempfile

FOLDER = os.path.join(sysconfig.get_path("purelib"), "nvidia")

_LINKS = "NIGHTBENCH_CUDA11_LINKS"

LIBRARIES = (
    ("cuda_runtime", "libcudart.so.11.0"),
    ("cuda_nvrtc", "libnvrtc.so.11.2"),
    ("nvtx", "libnvToolsExt.so.1"),
    ("cublas", "libcublasLt.so.11"),
    ("cublas", "libcublas.so.11"),
    ("cufft", "libcufft.so.10"),
    ("curand", "libcurand.so.10"),
    ("cusparse", "libcusparse.so.11"),
    ("cusolver", "libcusolver.so.11"),
    ("cudnn", "libcudnn.so.8"),
    ("nccl", "libnccl.so.2"),
    ("cuda_cupti", "libcupti.so.11.8"),
)
"""Wheel and library; each library comes after the libraries that it needs."""


def load():
    """Load CUDA's libraries of this environment; return their paths.

    A framework that is linked against them then finds them in memory.
    """
    paths = [os.path.join(FOLDER, wheel, "lib", name) for wheel, name in LIBRARIES]
    found = [path for path in paths if os.path.exists(path)]
    for path in found:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    return found


def find_without_versions(paths):
    """Let a framework open these libraries by names like `libcudnn.so`, which wheels lack.

    Links with such names are put on LD_LIBRARY_PATH. The linker reads it only when a process
    starts, so this process replaces itself once.
    """
    if os.environ.get(_LINKS):
        return
    folder = os.path.join(os.environ.get("NIGHTBENCH_PROCESS_DIR") or tempfile.mkdtemp(), "cuda11")
    os.mkdir(folder)
    for path in paths:
        name = os.path.basename(path).partition(".so")[0] + ".so"
        os.symlink(path, os.path.join(folder, name))
    known = os.environ.get("LD_LIBRARY_PATH")
    os.environ[_LINKS] = folder
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (folder, known)))
    os.execv(sys.executable, sys.orig_argv)
