"""TLS, and tokens by which the server knows its callers."""

import asyncio
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Face

from pytest_rallypoint import RallypointServer
from rallypoint import AsyncClient, AsyncScheduler, CallError, Client, Tls, lock
from rallypoint._backoff import Backoff
from rallypoint._details import unavailable

CONFIG = """
[identity]
token_file = "{folder}/tokens.toml"

[[access]]
identities = ["token:nightly"]
namespaces = ["etl"]
role = "submitter"

[[access]]
identities = ["cert:robot"]
namespaces = ["robots"]
role = "submitter"

[[access]]
identities = ["token:viewer"]
namespaces = ["*"]
role = "reader"
"""
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates, tokens, and the configuration of a server."""
    folder = tmp_path_factory.mktemp("security")
    for authority in ("ca", "stranger"):
        names = ("-subj", f"/CN={authority}", "-keyout", f"{folder}/{authority}.key")
        openssl("req", "-x509", *KEY, "-days", "2", *names, "-out", f"{folder}/{authority}.crt")
    for name, alternatives in (
        ("server", "DNS:localhost,IP:127.0.0.1"),
        ("robot", "DNS:robot"),
        ("nobody", "URI:spiffe://a/b,URI:spiffe://a/c"),
    ):
        openssl(
            "req", "-x509", *KEY, "-days", "2", "-subj", f"/CN={name}",
            "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-addext", f"subjectAltName={alternatives}",
            "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt",
        )  # fmt: skip
    hashes = {
        name: hashlib.sha256(f"{name}-secret".encode()).hexdigest()
        for name in ("nightly", "viewer")
    }
    lines = [f'{name} = "sha256:{digest}"' for name, digest in hashes.items()]
    (folder / "tokens.toml").write_text("\n".join(lines))
    (folder / "tokens.toml").chmod(0o600)
    (folder / "rallypoint.toml").write_text(CONFIG.format(folder=folder))
    (folder / "token").write_text("nightly-secret\n")
    return folder


@pytest.fixture(scope="module")
def secure(rallypoint_program: str, folder: Path) -> Iterator[RallypointServer]:
    options = ["--listen-cert", f"{folder}/server.crt", "--listen-key", f"{folder}/server.key"]
    options += ["--listen-client-ca", f"{folder}/ca.crt"]
    options += ["--config", f"{folder}/rallypoint.toml"]
    server = RallypointServer(rallypoint_program, options)
    try:
        yield server.start()
    finally:
        server.remove()


async def test_a_caller_with_a_token_comes_by_tls(
    face: Face, secure: RallypointServer, folder: Path
) -> None:
    assert secure.url.startswith("https://")
    tls = Tls(ca=folder / "ca.crt")
    async with face.scheduler(Client(secure.url, tls=tls, token_file=folder / "token")) as s:
        assert (await face.result(s.submit("select 1"))).rows_affected == 1
        described = await s.describe()
    assert (described.namespace, described.caller) == ("etl", "token:nightly")


async def test_a_caller_with_a_certificate(
    face: Face, secure: RallypointServer, folder: Path
) -> None:
    tls = Tls(folder / "ca.crt", folder / "robot.crt", folder / "robot.key")
    async with face.scheduler(Client(secure.url, tls=tls)) as s:
        described = await s.describe()
    assert (described.namespace, described.caller) == ("robots", "cert:robot")


async def test_others_are_refused(face: Face, secure: RallypointServer, folder: Path) -> None:
    tls = Tls(ca=folder / "ca.crt")

    async def refused(client: Client) -> CallError:
        with pytest.raises(CallError) as raised:
            async with face.scheduler(client):
                pass
        return raised.value

    assert (await refused(Client(secure.url, tls=tls))).reason == "IDENTITY_MISSING"
    wrong = await refused(Client(secure.url, tls=tls, token="wrong"))
    assert (wrong.code, wrong.reason) == ("UNAUTHENTICATED", "IDENTITY_INVALID")
    reader = Client(secure.url, tls=tls, token="viewer-secret", namespace="etl")
    assert (await refused(reader)).reason == "ROLE_MISSING"
    strange = Client(secure.url, tls=Tls(ca=folder / "stranger.crt"), retry_timeout=0.2)
    assert (await refused(strange)).code == "UNAVAILABLE"
    assert "its authority must be trusted: tls=Tls(ca=" in str(await refused(strange))


async def test_a_scheme_that_is_not_that_of_the_server_is_named(
    face: Face, secure: RallypointServer, rallypoint_server: RallypointServer
) -> None:
    plain, tls = rallypoint_server.url, secure.url
    for url in (plain.replace("http://", "https://"), tls.replace("https://", "http://")):
        with pytest.raises(CallError, match="begins with https:// if the server has TLS"):
            async with face.scheduler(Client(url, retry_timeout=0.2)):
                pass


UNREACHED = "failed to connect to all addresses; last error: "
REFUSED = f"{UNREACHED}UNKNOWN: ipv6:%5B::1%5D:50051: Failed to connect: Connection refused"
MIX_UPS = [
    "UNAVAILABLE: ipv4:127.0.0.1:50051: Socket closed",
    "UNKNOWN: Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: WRONG_VERSION_NUMBER",
    "Custom verification check failed with error: Hostname Verification Check failed.",
]


@pytest.mark.parametrize("text", MIX_UPS)
async def test_the_most_telling_error_of_several_addresses_is_kept(text: str) -> None:
    backoff = Backoff(0.2)
    mix_up, refused = unavailable(UNREACHED + text), unavailable(REFUSED)
    await backoff.wait(mix_up)
    with pytest.raises(CallError) as raised:
        while True:
            await backoff.wait(refused)
    assert raised.value is mix_up
    assert "TLS" in str(mix_up)
    final = CallError("INVALID_ARGUMENT", "no", reason="X")
    with pytest.raises(CallError) as raised:
        await backoff.wait(final)
    assert raised.value is final


def test_a_connection_that_is_lost_is_no_mix_up_of_tls() -> None:
    for text in (REFUSED, "Socket closed"):
        assert "TLS" not in str(unavailable(text))


async def test_a_renewed_authority_is_read_again(
    face: Face, secure: RallypointServer, folder: Path
) -> None:
    ca = folder / "present.crt"
    ca.write_bytes((folder / "stranger.crt").read_bytes())
    client = Client(secure.url, tls=Tls(ca=ca), token="nightly-secret", retry_timeout=0.2)
    with pytest.raises(CallError):
        async with face.scheduler(client):
            pass
    ca.write_bytes((folder / "ca.crt").read_bytes())
    async with face.scheduler(client) as s:
        await face.result(s.submit("select 1"))


async def test_a_renewed_certificate_is_shown_though_the_connection_lives(
    secure: RallypointServer, folder: Path
) -> None:
    """Calls and streams that were made with the one before, and refused, are made again."""

    def present(name: str) -> None:
        for kind in ("crt", "key"):
            (folder / f"present.{kind}").write_bytes((folder / f"{name}.{kind}").read_bytes())

    present("nobody")
    tls = Tls(folder / "ca.crt", folder / "present.crt", folder / "present.key")
    client = AsyncClient(secure.url, tls=tls)
    for _ in range(2):  # the files are the same: it is final
        with pytest.raises(CallError) as raised:
            await AsyncScheduler(client).open()
        assert (raised.value.code, raised.value.is_retryable) == ("UNAUTHENTICATED", False)
    pick = client.connection().servers.pick()
    present("robot")
    opened = await asyncio.gather(*(AsyncScheduler(client).open() for _ in range(3)))
    assert {(await s.describe()).caller for s in opened} == {"cert:robot"}
    assert client.connection().servers.was_renewed(pick)
    present("nobody")
    client = AsyncClient(secure.url, tls=tls)
    with pytest.raises(CallError, match="UNAUTHENTICATED"):
        await AsyncScheduler(client).open()
    present("robot")
    with pytest.raises(CallError) as raised:
        async with lock("nothing", client=client):
            pass
    assert raised.value.reason == "RESOURCE_NOT_FOUND"
    for s in opened:
        await s.close()
