"""What a build of llama.cpp leaves unused of a processor, and which prebuilt library may stand in for one."""

from __future__ import annotations

import importlib.metadata
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llama_magic.engine import build, crash_check, prebuilt
from llama_magic.errors import BackendError
from llama_magic.magics import doctor

AVX2 = "fpu sse4_2 avx f16c fma bmi2 avx2"
AVX512 = f"{AVX2} avx512f avx512cd avx512vl avx512dq avx512bw"
PROCESSORS = {
    "Haswell": AVX2,
    "Alder Lake": f"{AVX2} avx_vnni",
    "Skylake-X": AVX512,
    "Knights Landing": f"{AVX2} avx512f avx512cd",
    "Sapphire Rapids": f"{AVX512} avx512vbmi avx512_vnni avx512_bf16 avx_vnni amx_bf16 amx_tile amx_int8",
    "Graviton 3": "fp asimd fphp asimdhp asimddp sve i8mm bf16",
}
BUILT = "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | BMI2 = 1 | REPACK = 1 | "
LINES = {
    "Haswell": "-DGGML_NATIVE=OFF",
    "Alder Lake": "-DGGML_NATIVE=OFF -DGGML_AVX_VNNI=ON",
    "Skylake-X": "-DGGML_NATIVE=OFF -DGGML_AVX512=ON",
    "Knights Landing": "-DGGML_NATIVE=OFF",
    "Sapphire Rapids": "-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON "
    "-DGGML_AVX512_BF16=ON",
    "Graviton 3": "-DGGML_NATIVE=ON",
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_line_builds_for_the_processor_and_never_for_amx(name: str) -> None:
    """The line switches on what the processor has whole, no more, and pins the version that is installed."""
    line = build.rebuild(PROCESSORS[name].split())
    assert re.findall('CMAKE_ARGS="(.*?)"', line) == [LINES[name]]
    assert line.endswith(f" llama-cpp-python=={importlib.metadata.version('llama-cpp-python')}")
    assert "AMX" not in line
    assert ("NATIVE=ON" in line) == (name == "Graviton 3")


def test_what_a_build_leaves_unused() -> None:
    """An AVX2 build leaves AVX-512 unused where the processor has it, and nothing on an older one."""

    def unused(name: str, features: str = BUILT) -> tuple[str, ...]:
        return build.unused(features, PROCESSORS[name].split())

    assert unused("Haswell") == unused("Knights Landing") == ()
    assert unused("Haswell", "CPU : AVX = 1 | F16C = 1 | FMA = 1 | AVX2 = 0 | BMI2 = 1 |") == ("AVX2",)
    assert unused("Skylake-X") == ("AVX512",)
    assert unused("Skylake-X", f"CUDA : ARCHS = 900 | {BUILT}AVX512 = 1 | ") == ()
    assert unused("Sapphire Rapids") == ("AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16")
    assert unused("Graviton 3", "CPU : NEON = 1 | ARM_FMA = 1 |") == (
        "FP16_VA",
        "DOTPROD",
        "MATMUL_INT8",
        "SVE",
    )


def test_the_processor_is_read_as_linux_writes_it(tmp_path: Path) -> None:
    """The flags of the first core are read for x86 and ARM; another system's are not known."""
    x86, arm = tmp_path / "x86", tmp_path / "arm"
    core = "processor\t: 0\nvmx flags\t: vnmi\nflags\t\t: fpu avx\nbugs\t\t: a\n\n"
    x86.write_text(core + core.replace("avx", "sse"))
    arm.write_text("processor\t: 0\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd\nCPU part\t: 0xd40\n")
    assert build.processor_flags(x86) == {"fpu", "avx"}
    assert build.processor_flags(arm) == {"fp", "asimd"}
    assert build.processor_flags(tmp_path / "none") == frozenset()


def test_doctor_says_what_is_unused_and_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor advises a build for the processor, but not where all is used or a GPU would be lost."""

    def check(name: str, **report: Any) -> doctor.Check:
        flags = frozenset(PROCESSORS.get(name, "").split())
        monkeypatch.setattr(build, "processor_flags", lambda: flags)
        return doctor.instructions({"features": BUILT, "gpu": False} | report)

    advised = check("Sapphire Rapids")
    assert advised.value.endswith("leaves unused: AVX512, AVX512_VBMI, AVX512_VNNI, AVX512_BF16")
    assert LINES["Sapphire Rapids"] in advised.command
    assert "AVX-512 read" in advised.advice
    assert check("Alder Lake").advice.startswith("Build llama.cpp for this processor:")
    assert check("Haswell").ok
    assert check("Haswell").value.endswith("leaves unused: none")
    assert check("Sapphire Rapids", gpu=True).ok
    assert check("another system") == doctor.Check(
        "instruction sets", "what this processor has is not known on this system"
    )


def test_verdicts_belong_to_the_library_that_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another library, chosen by LLAMA_CPP_LIB_PATH, is another build to the crash check."""
    own = crash_check.build_id()
    (tmp_path / "libllama.so").write_bytes(b"one")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    first = crash_check.build_id()
    (tmp_path / "libllama.so").write_bytes(b"another")
    assert len({own, first, crash_check.build_id()}) == 3


# --- the prebuilt library -----------------------------------------------------------------------


@pytest.fixture
def thin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An installation without a library of its own, beside a prebuilt package that fits in everything."""
    folder = tmp_path / "llama_cpp_py_sync"
    folder.mkdir()
    for name in ("libllama.so", "libllama.so.0", "libggml-cpu.so.0", "readme.txt"):
        (folder / name).write_bytes(name.encode())
    bindings = tmp_path / "llama_cpp"
    bindings.mkdir()
    world = SimpleNamespace(
        folder=folder, bindings=bindings, version=prebuilt.VERSION, libc=("glibc", "2.39")
    )
    world.tried, world.wrong = [], []
    folders = {"llama_cpp_py_sync": folder, "llama_cpp": bindings}
    monkeypatch.setattr(prebuilt, "_folder", folders.get)
    world.folders = folders
    real = importlib.metadata.version
    monkeypatch.setattr(
        prebuilt.importlib.metadata,
        "version",
        lambda name: world.version if name == prebuilt.PACKAGE else real(name),
    )
    monkeypatch.setattr(prebuilt, "sys", SimpleNamespace(platform="linux", modules={}, executable="python"))
    monkeypatch.setattr(prebuilt.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(prebuilt.platform, "libc_ver", lambda: world.libc)
    monkeypatch.setitem(prebuilt.DIGESTS, ("linux", "x86_64"), prebuilt.digest(folder))
    monkeypatch.setattr(prebuilt, "try_out", lambda place: world.tried.append(place) or world.wrong)
    monkeypatch.setattr(prebuilt.sources, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", "")  # noted, so that what `choose` sets is undone
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH")
    return world


def test_the_prebuilt_library_is_proved_once_and_named(thin: SimpleNamespace) -> None:
    """What fits is tried in a child, used, named, and not tried again in the next kernel."""
    prebuilt.choose()
    assert os.environ.pop("LLAMA_CPP_LIB_PATH") == str(thin.folder)
    prebuilt.choose()
    assert prebuilt.origin() == "llama-cpp-py-sync 0.11227, prebuilt"
    assert thin.tried == [thin.folder]
    os.environ["LLAMA_CPP_LIB_PATH"] = "/elsewhere"
    assert prebuilt.origin() == "the environment's LLAMA_CPP_LIB_PATH"


def test_a_library_of_its_own_or_of_the_user_comes_first(
    thin: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prebuilt library is not looked at where llama-cpp-python has one or the user names one."""
    thin.version = "0.1"
    (thin.bindings / "lib").mkdir()
    (thin.bindings / "lib" / "libllama.so").touch()
    prebuilt.choose()
    assert prebuilt.origin() == prebuilt.OWN
    (thin.bindings / "lib" / "libllama.so").unlink()
    with pytest.raises(BackendError):
        prebuilt.choose()
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", "/mine")
    prebuilt.choose()
    assert os.environ["LLAMA_CPP_LIB_PATH"] == "/mine"


def test_what_does_not_fit_is_refused_by_name(thin: SimpleNamespace) -> None:
    """Version, C library, bytes and a child's findings are refusals with a way out, none of them kept."""

    def refusal() -> str:
        with pytest.raises(BackendError) as caught:
            prebuilt.choose()
        assert "LLAMA_CPP_LIB_PATH" not in os.environ
        assert "--no-binary llama-cpp-python" in str(caught.value)
        return str(caught.value)

    thin.wrong = ["context.n_samplers is 7, expected 0"]
    assert "context.n_samplers is 7, expected 0" in refusal()
    thin.wrong = []
    thin.libc = ("glibc", "2.36")
    assert "needs glibc 2.38 or newer, and this system has glibc 2.36" in refusal()
    thin.libc = ("", "")
    assert "another C library" in refusal()
    thin.libc = ("glibc", "2.100")
    (thin.folder / "libggml-cpu.so.0").write_bytes(b"another")
    assert "not those that were published" in refusal()
    thin.version = "0.11739"
    assert "0.11739 cannot be used here: only 0.11227" in refusal()
    del thin.folders["llama_cpp_py_sync"]
    assert 'pip install "llama-magic[prebuilt]"' in refusal()
    assert len(thin.tried) == 1


@pytest.mark.parametrize(
    ("system", "machine", "libc", "fits"),
    [
        ("linux", "x86_64", ("glibc", "2.38"), True),
        ("linux", "x86_64", ("glibc", "2.4"), False),
        ("linux", "aarch64", ("glibc", "2.41"), False),
        ("darwin", "arm64", ("", ""), True),
        ("darwin", "x86_64", ("", ""), False),
        ("win32", "AMD64", ("", ""), True),
    ],
)
def test_systems_it_is_for(system: str, machine: str, libc: tuple[str, str], fits: bool) -> None:
    """Only systems whose library's digest is known, and on Linux glibc 2.38, are let through."""
    assert (prebuilt.misfit(system, machine, libc) == "") == fits


def test_the_library_in_use_passes_the_check() -> None:
    """The library that these tests run with has the known defaults; a folder without one is refused."""
    import llama_cpp

    assert prebuilt.try_out(Path(llama_cpp.llama_cpp._lib._name).parent) == []
    (wrong,) = prebuilt.try_out(Path(__file__).parent)
    assert "a process that loads it ends with status 1" in wrong


@pytest.mark.parametrize("place", [0, 3, 9, -4])
def test_an_inserted_field_is_noticed(place: int) -> None:
    """Values read one field late, as from a library with one field more, are named."""
    import llama_cpp

    for kind in ("context", "model"):
        values = getattr(llama_cpp, f"llama_{kind}_default_params")()
        names = [n for n, *_ in values._fields_ if isinstance(getattr(values, n), (int, float))]
        found = [getattr(values, name) for name in names]
        right = dict(zip(names, found, strict=True))
        assert prebuilt.differing({kind: right}) == []
        found.insert(place, 77)
        late = dict(zip(names, found, strict=False))
        assert any(f" is {77}, expected " in line for line in prebuilt.differing({kind: late}))
