"""The stubs say what the package has, and type checkers understand them."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy isn't installed")


def test_the_stubs_are_those_of_the_module(tmp_path):
    # What an extension module gives by `__getattr__` shows as `__getattribute__`.
    allowed = tmp_path / "allowed"
    allowed.write_text("dualvm._dualvm.Module.__getattr__\n")
    options = ["--concise", "--ignore-disjoint-bases", "--allowlist", str(allowed)]
    command = [sys.executable, "-m", "mypy.stubtest", "dualvm", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_is_checked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import dualvm\n"
        'f: dualvm.Function = dualvm.compile("def f (x : Real) : Real = x", limits=dualvm.Limits(fuel=3))\n'
        "value: float = f.value_and_grad(1.0)[0]\n"
        'f.wrt(3)\n'
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(errors) == 1 and "program.py:4" in errors[0], done.stdout + done.stderr
