"""Stubs generated from proto/ with grpcio-tools, into a temporary folder that is on the path from then on."""

import pathlib
import sys
import tempfile

import grpc_tools
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"


def generate():
    folder = tempfile.mkdtemp(prefix="rallypoint-stubs-")
    files = [str(path.relative_to(PROTO)) for path in sorted(PROTO.glob("rallypoint/v1/*.proto"))]
    include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{PROTO}", f"-I{include}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(arguments + files) == 0, "protoc failed"
    sys.path.insert(0, folder)


generate()
