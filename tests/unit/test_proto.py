"""The generated code is what proto/ says, and proto/ is what CONTRACTS § 2 says."""

import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb

ROOT = Path(__file__).parents[2]
GENERATED = Path("adapters/grpc/gen")

SCOPE = {"service_code": (1, "string"), "run_id": (2, "string")}
KEY = {"key": (3, "string")}
DEGRADED = {"degraded": (2, "bool")}
# CONTRACTS § 2: fixed, because clients are built against them.
MESSAGES = {
    "CheckIfNew": ({**SCOPE, **KEY, "ttl": (4, "Duration")}, {"is_new": (1, "bool"), **DEGRADED}),
    "CheckManyIfNew": (
        {**SCOPE, "keys": (3, "repeated string"), "ttl": (4, "Duration")},
        {"is_new": (1, "repeated bool"), **DEGRADED},
    ),
    "Get": ({**SCOPE, **KEY}, {"found": (1, "bool"), "value": (2, "bytes"), "degraded": (3, "bool")}),
    "Set": ({**SCOPE, **KEY, "value": (4, "bytes"), "ttl": (5, "Duration")}, {"degraded": (1, "bool")}),
    "Exists": ({**SCOPE, **KEY}, {"exists": (1, "bool"), **DEGRADED}),
    "RunStats": (SCOPE, {"keys": (1, "int64"), **DEGRADED}),
    "ForgetRun": (SCOPE, {"forgotten": (1, "int64")}),
}
TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT64: "int64",
}


def fields(message: Descriptor) -> dict[str, tuple[int, str]]:
    return {
        field.name: (
            field.number,
            ("repeated " if field.is_repeated else "")
            + (field.message_type.name if field.message_type else TYPES[field.type]),
        )
        for field in message.fields
    }


def test_the_service_is_the_one_of_the_contract() -> None:
    service = pb.DESCRIPTOR.services_by_name["DedupCache"]
    assert service.full_name == "interlock.dedup.v1.DedupCache"
    methods = {method.name: method for method in service.methods}
    assert methods.keys() == {*MESSAGES, "CheckStream"}
    for name, method in methods.items():
        streams = name == "CheckStream"
        told = (fields(method.input_type), fields(method.output_type))
        assert told == MESSAGES["CheckManyIfNew" if streams else name]
        assert (method.client_streaming, method.server_streaming) == (streams, streams)


def test_the_generated_code_is_what_make_proto_makes(tmp_path: Path) -> None:
    """`make proto` puts it right."""
    protos = sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto").rglob("*.proto"))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            "-I",
            ".",
            f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}",
            *protos,
        ],
        cwd=ROOT / "proto",
        check=True,
        timeout=60,
    )
    made = {path.relative_to(tmp_path): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.py*")}
    kept = {
        path.relative_to(ROOT / GENERATED): path.read_text(encoding="utf-8")
        for path in (ROOT / GENERATED).rglob("*_pb2*.py*")
        if "__pycache__" not in path.parts
    }
    assert made
    assert made == kept
