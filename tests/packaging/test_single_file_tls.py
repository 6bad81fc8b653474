"""TLS in the single executable file: its client on a server of this host's OpenSSL."""

import json
import re
import ssl
import subprocess
from pathlib import Path

import pytest
from release import sbom
from single_file import interpreter

from tests.laboratory.runtime import FakeRuntime
from tests.packaging import bare_root
from tests.packaging.single_file_program import (
    PROGRAM,
    TWIN,
    needs_program,
    needs_root,
    needs_twin,
    output_of,
    run,
    run_with_mounts,
)
from tests.packaging.tls_server import CLIENT, TlsServer, client_argument
from tests.simulated_host import WAIT_S, SimulatedHost, wait_for

pytestmark = [needs_twin, pytest.mark.timeout(900)]

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
PREFIXES = {"ECDSA": "", "RSA": "rsa-"}
"""Kind of keys -> prefix of the files in tests/certificates."""
NAMES = {"ECDSA": "system:node-exporter", "RSA": "client"}
TLS_1_3 = VERSIONS["TLSv1.3"]

# Arguments: a root, a file that becomes its /mnt/twin, and the twin's arguments.
_IN_DEBIAN = """
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/mnt"
cp "$2" "$1/mnt/twin"
root=$1
shift 2
exec env -i "$(command -v chroot)" "$root" /mnt/twin "$@"
"""


@pytest.mark.parametrize("kind", PREFIXES)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_with_a_client_certificate(version: str, kind: str) -> None:
    prefix = PREFIXES[kind]
    authority = f"{prefix}ca"
    with TlsServer(prefix, VERSIONS[version], authority) as server:
        argument = client_argument(server.port, authority=authority, certificate=f"{prefix}client")
        shown = output_of([TWIN, CLIENT, argument])
    assert json.loads(shown) == {"version": version, "client": [NAMES[kind]]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_requires_a_certificate_does_not_reply_without(version: str) -> None:
    with TlsServer("rsa-", VERSIONS[version], "rsa-ca") as server:
        shown = output_of([TWIN, CLIENT, client_argument(server.port, authority="rsa-ca")])
    # The connection ends before or after the client has read why.
    assert re.match("SSLError .*alert|ConnectionResetError|BrokenPipeError|SSLEOFError", shown)


@pytest.mark.parametrize(
    ("authority", "host", "reason"),
    [
        ("ca", "127.0.0.1", "unable to get local issuer certificate"),
        ("rsa-ca", "localhost", "Hostname mismatch, certificate is not valid for 'localhost'"),
        ("", "127.0.0.1", "unable to get local issuer certificate"),
    ],
    ids=["another authority", "another host", "no authority"],
)
def test_a_server_that_cannot_be_verified_is_an_error(
    authority: str, host: str, reason: str
) -> None:
    with TlsServer("rsa-", TLS_1_3) as server:
        argument = client_argument(server.port, authority=authority, host=host)
        shown = output_of([TWIN, CLIENT, argument])
    assert shown.startswith("SSLCertVerificationError ")
    assert f"certificate verify failed: {reason}" in shown


@needs_root
def test_a_request_in_a_bare_root(tmp_path: Path) -> None:
    """There are no certificates, no /dev/urandom, and nothing can be written."""
    bare_root.make(tmp_path / "root", TWIN)
    with TlsServer("rsa-", TLS_1_3, "rsa-ca") as server:
        results = []
        for authority in ("rsa-ca", ""):
            argument = client_argument(server.port, authority=authority, certificate="rsa-client")
            command = (tmp_path / "root", "/nri-numamem", CLIENT, argument)
            done = run_with_mounts(bare_root.ENTER, *command)
            assert done.returncode == 0, done.stderr
            results.append(done.stdout)
    assert json.loads(results[0]) == {"version": "TLSv1.3", "client": ["client"]}
    assert results[1].startswith("SSLCertVerificationError ")


@needs_root
def test_a_request_in_a_root_of_debian_11(tmp_path: Path) -> None:
    debian = interpreter.cache_root() / "root"
    if not debian.exists():
        pytest.skip("no build root in the cache: make dist")
    with TlsServer("", TLS_1_3) as server:
        argument = client_argument(server.port, authority="ca")
        done = run_with_mounts(_IN_DEBIAN, debian, TWIN, CLIENT, argument)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"version": "TLSv1.3", "client": []}


def test_only_protocols_that_are_considered_safe() -> None:
    code = """
import ssl
protocols = [name for name in dir(ssl) if name.startswith(("HAS_SSL", "HAS_TLS"))]
print([name for name in protocols if getattr(ssl, name)])
ciphers = ssl.create_default_context().get_ciphers()
print({cipher["protocol"] for cipher in ciphers} == {"TLSv1.2", "TLSv1.3"})
"""
    assert output_of([TWIN, code]).splitlines() == ["['HAS_TLSv1_2', 'HAS_TLSv1_3']", "True"]


def test_a_configuration_of_openssl_has_no_effect(tmp_path: Path) -> None:
    (tmp_path / "openssl.cnf").write_text(
        "openssl_conf = main\n[main]\nssl_conf = part\n[part]\nsystem_default = all\n"
        "[all]\nCiphersuites = TLS_AES_128_GCM_SHA256\nCipherString = ECDHE-RSA-AES128-GCM-SHA256\n"
    )
    code = "import ssl; print(len(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).get_ciphers()))"
    environment = {"OPENSSL_CONF": str(tmp_path / "openssl.cnf")}
    done = run(TWIN, code, environment=environment)
    assert (done.returncode, done.stdout) == (0, output_of([TWIN, code]))


@needs_program
@pytest.mark.skipif(not sbom.path_of(PROGRAM).exists(), reason="built without an SBOM")
def test_the_version_in_the_sbom_is_that_of_the_library() -> None:
    (part,) = (p for p in sbom.as_component(PROGRAM)["components"] if p["name"] == "OpenSSL")
    upstream = part["version"].partition("-")[0]
    assert output_of([TWIN, "import ssl; print(ssl.OPENSSL_VERSION)"]).split()[1] == upstream
    assert f"\nOpenSSL-{part['version']}: LICENSE.txt\n" in output_of([PROGRAM, "--licenses"])


def test_the_plugin_does_not_load_openssl(simulated_host: SimulatedHost, tmp_path: Path) -> None:
    """Neither when it serves metrics, whose library imports HTTP and TLS."""
    socket = tmp_path / "metrics.sock"
    script = """
del sys.argv[1]
import nri_numamem.cli.main as m
status = m.main()
loaded = [name for name in ("asyncio", "http.client", "prometheus_client") if name in sys.modules]
print(loaded, [name for name in sys.modules if name.rpartition(".")[2] in ("ssl", "_ssl")])
sys.exit(status)
"""
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        command = (str(TWIN), f"import sys{script}")
        process = simulated_host.start("--metrics-address", f"unix://{socket}", command=command)
        runtime.accept(WAIT_S)
        runtime.synchronize()
        wait_for(socket.exists, "the metrics")
        process.terminate()
        output, _ = process.communicate(timeout=WAIT_S)
    assert output.splitlines()[-1] == "['asyncio', 'http.client', 'prometheus_client'] []"
    assert process.returncode == 0


def test_modules_that_the_exporter_uses() -> None:
    code = """
import sys, http.client
print("ssl" in sys.modules, http.client.HTTPSConnection("127.0.0.1")._context.check_hostname)
import base64, email.parser, email.utils, hashlib, hmac, socket, ssl, urllib.parse
print("ssl" in sys.modules, hmac.digest(b"key", b"text", "sha256").hex()[:8])
"""
    done = subprocess.run([TWIN, code], env={}, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["False True", "True 6afa9046"], done.stderr
