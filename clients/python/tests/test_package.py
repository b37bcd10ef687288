"""What is shipped: the stubs, the version, what it depends on."""

import ast
import decimal
import importlib.metadata
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import rallypoint

PACKAGE = Path(__file__).parent.parent


def test_the_stubs_are_those_of_the_proto_files(tmp_path: Path) -> None:
    subprocess.run([PACKAGE / "generate", tmp_path], check=True)
    generated = {
        path.relative_to(tmp_path): path.read_text()
        for path in tmp_path.rglob("*.py*")
        if path.suffix != ".pyc"
    }
    assert len(generated) > 16
    source = PACKAGE / "src"
    differ = [name for name, text in generated.items() if (source / name).read_text() != text]
    assert differ == [], "run clients/python/generate"


def test_it_has_the_version_of_the_server() -> None:
    manifest = (PACKAGE.parent.parent / "Cargo.toml").read_text()
    version = re.search(r'^version = "([^"]+)"', manifest, re.MULTILINE)
    assert version is not None
    assert rallypoint.__version__ == version[1] == importlib.metadata.version("rallypoint")


def test_it_depends_on_two_packages() -> None:
    required = importlib.metadata.requires("rallypoint") or []
    assert [re.split(r"[<>=]", name)[0] for name in required] == ["grpcio", "protobuf"]


def test_every_name_it_offers_is_there() -> None:
    assert all(getattr(rallypoint, name) for name in rallypoint.__all__)
    assert sorted(rallypoint.__all__) == sorted(set(rallypoint.__all__))


def test_tools_know_the_names_it_offers_and_no_others(tmp_path: Path) -> None:
    assert set(rallypoint.__all__) <= set(dir(rallypoint))
    (tmp_path / "wrong.py").write_text("from rallypoint import lock, Shceduler\n")
    command = [sys.executable, "-m", "mypy", "--config-file=", "wrong.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "no attribute" in ended.stdout
    assert "Shceduler" in ended.stdout
    assert "Found 1 error" in ended.stdout


def test_exceptions_are_named_as_they_are_imported() -> None:
    offered = [getattr(rallypoint, name) for name in rallypoint.__all__]
    errors = [
        found for found in offered if isinstance(found, type) and issubclass(found, Exception)
    ]
    assert len(errors) > 10
    assert {error.__module__ for error in errors} == {"rallypoint"}


def test_it_imports_nothing_that_can_wait() -> None:
    code = "import sys, rallypoint; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    late = {
        "json",
        "uuid",
        "decimal",
        "html",
        "random",
        "ipaddress",
        "pytest",
        "IPython",
        "rallypoint.v1.job_pb2",
        "rallypoint._runs",
        "rallypoint._locks",
        "dataclasses",
    }
    assert late & set(ended.stdout.split()) == set()


def test_the_types_of_schedulers_can_be_asked_for() -> None:
    for face in (rallypoint.Scheduler, rallypoint.AsyncScheduler):
        members = [getattr(member, "fget", member) for _, member in inspect.getmembers(face)]
        methods = [member for member in members if inspect.isfunction(member)]
        assert len(methods) > 10
        for method in methods:
            typing.get_type_hints(method)


def test_the_types_of_functions_can_be_asked_for() -> None:
    offered = [getattr(rallypoint, name) for name in rallypoint.__all__]
    functions = [found for found in offered if inspect.isfunction(found)]
    assert rallypoint.sql in functions
    for function in functions:
        typing.get_type_hints(function)
    params = typing.get_type_hints(rallypoint.sql)["params"]
    assert decimal.Decimal in typing.get_args(params)


def own_sources() -> list[Path]:
    sources = (PACKAGE / "src").rglob("*.py")
    return [path for path in sources if not path.name.endswith("_pb2.py")]


def test_files_and_functions_are_small() -> None:
    files = [*own_sources(), *(PACKAGE / "tests").glob("*.py")]
    assert len(files) > 30
    assert [path.name for path in files if len(path.read_text().splitlines()) > 400] == []
    long = [
        f"{path.name}: {node.name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or 0) - node.lineno >= 60
    ]
    assert long == []


def test_no_two_modules_import_each_other() -> None:
    own = {path.stem: path for path in own_sources() if path.stem != "__init__"}
    imports: dict[str, set[str]] = {}
    for name, path in own.items():
        nodes = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        direct = {(node.module or "").rpartition(".")[2] for node in nodes}
        named = {
            alias.name for node in nodes if node.module == "rallypoint" for alias in node.names
        }
        imports[name] = (direct | named) & set(own)
    while free := [name for name, needed in imports.items() if not needed & set(imports)]:
        for name in free:
            del imports[name]
    assert imports == {}
