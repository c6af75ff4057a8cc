"""The code in the pages runs, and gives what it says."""

import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).resolve().parent.parent
PAGES = [HERE / "README.md", HERE / "docs" / "tutorial.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_runs_from_its_beginning_to_its_end(page, tmp_path, monkeypatch):
    """Blocks go on where the one before has ended. One that needs what isn't installed ends with its import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text, names, ran = page.read_text(), {}, 0
    for found in BLOCK.finditer(text):
        line = text[: found.start()].count("\n") + 1
        try:
            exec(compile("\n" * line + found.group(1), str(page), "exec"), names)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] not in ("matplotlib", "scipy"):
                raise
        ran += 1
    assert ran > 1
