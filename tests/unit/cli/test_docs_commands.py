"""The command lines in the documents are ones that `hive-acid` takes: each verb, option and argument of them exists."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from airflow_hive_acid.cli.main import app

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^ *```(?:console|bash|shell)\n(.*?)^ *```", re.S | re.M)
_SPAN = re.compile(r"(?<!`)`((?:airflow )?hive-acid [^`]+)`(?!`)")
#: What stands in a sentence for something else; the rest of the command is checked.
_PLACEHOLDER = re.compile(r"[\"']?(?:…|\||\[|<|\b(?:VERB|NAME)\b)")
#: Of the click that typer keeps to itself.
_USAGE_ERROR: Any = typer.BadParameter.__base__
#: Where the text of a message gives way to what is known only when it is said.
_ENDS = str.maketrans(dict.fromkeys('{"\\', "…"))
_STARTS = ("hive-acid", "airflow hive-acid", "primary", "replica", ".venv/bin/hive-acid")


def in_blocks(text: str) -> list[str]:
    """The commands of blocks of a shell: behind a `$` if the block has any, else each line; quotes may span lines."""
    found = []
    for block in _BLOCK.findall(text):
        lines = [line.strip() for line in block.splitlines()]
        prompted = any(line.startswith("$ ") for line in lines)
        command = ""
        for line in lines:
            if not command and prompted and not line.startswith("$ "):
                continue
            command += "\n" + line.removeprefix("$ ") if command else line.removeprefix("$ ")
            if not command.endswith("\\") and _is_whole(command):
                found += [command, *re.findall(r"\$\((.*)\)", command)]
                command = ""
        assert command == ""
    return [command for command in found if command.startswith(_STARTS)]


def in_sentences(text: str) -> list[str]:
    """Commands between backquotes outside of blocks, as far as they are spelled out."""
    return [" ".join(span.split()) for span in _SPAN.findall(re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M))]


def problem_of(command: str, *, whole: bool = True) -> str | None:
    """What is wrong with a command line, or None.

    :param whole: whether arguments may not be missing, and no placeholders be there.
    """
    if not whole:
        command = _PLACEHOLDER.split(command)[0]
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[0] == "airflow":
        words = words[2:] if words[2:3] == ["--conn-id"] else words[1:]
        words = words[2:] if words[0] == "--conn-id" else words[1:]
    else:
        words = words[1:]
    for sign in ("|", "&&", ";", ">"):
        words = words[: words.index(sign)] if sign in words else words
    current: Any = _the_program()
    context = None
    try:
        context = current.make_context("hive-acid", words)
        # A group keeps the verb apart from what follows it.
        while hasattr(current, "resolve_command") and (words := [*context._protected_args, *context.args]):
            name, current, words = current.resolve_command(context, words)
            context = current.make_context(name, words, parent=context)
    except typer.Exit:  # --help
        return None
    except _USAGE_ERROR as error:
        kind = type(error).__name__
        missing = kind in ("MissingParameter", "NoArgsIsHelpError") or "requires an argument" in str(error)
        return None if missing and not whole else f"{command}: {kind}: {error}"
    return None


@functools.cache
def _the_program() -> Any:
    """Made once: a hundred commands, each with its options, for each of a thousand lines would be most of the work."""
    return typer.main.get_command(app)


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HIVE_ACID_METASTORE_URL", "HIVE_ACID_WAREHOUSE", "HIVE_ACID_LEASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_the_documents_is_one(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = [problem_of(command) for command in in_blocks(text)]
    wrong += [problem_of(command, whole=False) for command in in_sentences(text)]
    assert [problem for problem in wrong if problem] == []


def test_every_command_that_a_message_recommends_is_one() -> None:
    wrong = []
    for module in sorted((ROOT / "airflow_hive_acid").rglob("*.py")):
        text = re.sub(r'"\s*\n\s*f?"', "", module.read_text(encoding="utf-8"))  # strings that go on in the next line
        for command in re.findall(r"(?<=['`])hive-acid [a-z][^'`\n]*(?=['`])", text):
            if problem := problem_of(command.translate(_ENDS).split("…")[0], whole=False):
                wrong.append(f"{module.name}: {problem}")
    assert wrong == []


def test_commands_are_found_and_wrong_ones_are_told() -> None:
    block = '$ hive-acid sql -e "SELECT\n1"\nrow\n$ export A=$(hive-acid lease grabb)  # x'
    text = f"```console\n{block}\n```\n`hive-acid show lock`"
    assert in_blocks(text) == ['hive-acid sql -e "SELECT\n1"', "hive-acid lease grabb"]
    assert in_sentences(text) == ["hive-acid show lock"]
    assert problem_of('hive-acid sql -e "SELECT\n1"') is None
    assert "grabb" in (problem_of("hive-acid lease grabb") or "")
    assert "--nope" in (problem_of("airflow hive-acid --conn-id x show locks --nope", whole=False) or "")
    assert problem_of("hive-acid changes db.t", whole=False) is None
    assert "MissingParameter" in (problem_of("hive-acid changes db.t") or "")
    assert problem_of('hive-acid explain --locks "…"', whole=False) is None
