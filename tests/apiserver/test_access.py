"""Addresses, tokens and the files of a service account."""

import os
import ssl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.apiserver.access import (
    Access,
    AccessError,
    Server,
    bytes_of,
    hide_from_other_processes,
    in_cluster,
    server_of,
    text_of,
    tls_context,
    token_of,
)
from tests.kubernetes_api import CERTIFICATES

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(
    ("url", "server", "text"),
    [
        ("https://a.example:6443", Server("a.example", 6443), "https://a.example:6443"),
        ("https://a.example/", Server("a.example", 443), "https://a.example:443"),
        ("https://[fd00::1]:6443", Server("fd00::1", 6443), "https://[fd00::1]:6443"),
        (
            "https://rancher/k8s/clusters/c-1/",
            Server("rancher", 443, "/k8s/clusters/c-1"),
            "https://rancher:443/k8s/clusters/c-1",
        ),
        ("http://127.0.0.1:8001", Server("127.0.0.1", 8001, is_tls=False), "http://127.0.0.1:8001"),
        ("http://localhost", Server("localhost", 80, is_tls=False), "http://localhost:80"),
    ],
)
def test_servers(url: str, server: Server, text: str) -> None:
    assert server_of(url, "here") == server
    assert str(server) == text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example:6443",
        "ftp://a",
        "https://",
        "https://a:99999",
        "https://a?b",
        "https://u@a",
        "https://[x",
    ],
)
def test_wrong_servers(url: str) -> None:
    with pytest.raises(AccessError, match=r"^here: .*https://host:6443"):
        server_of(url, "here")


def test_a_token_is_not_sent_without_tls_to_another_host() -> None:
    with pytest.raises(AccessError, match="http is only supported on loopback"):
        server_of("http://10.0.0.1:8080", "here")


def test_a_service_account(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "token").write_text("abc.def\n")
    access = in_cluster(POD, tmp_path)
    assert access == Access(Server("10.0.0.1", 443), "CA", "abc.def")
    assert "abc" not in repr(access)
    (tmp_path / "token").write_text("rotated")
    assert in_cluster(POD, tmp_path) == replace(access, token="rotated")  # noqa: S106


@pytest.mark.parametrize("name", ["ca.crt", "token"])
def test_a_service_account_without_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "token").write_text("t")
    (tmp_path / name).unlink()
    with pytest.raises(AccessError, match=rf"/{name}: No such file"):
        in_cluster(POD, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"KUBERNETES_SERVICE_HOST": ""},
        {"KUBERNETES_SERVICE_PORT": "x"},
        {"KUBERNETES_SERVICE_PORT": "99999"},
    ],
)
def test_no_pod(changes: dict[str, str]) -> None:
    with pytest.raises(AccessError, match="do not name an API server; run in a pod"):
        in_cluster({**POD, **changes})


@pytest.mark.parametrize("text", ["", " \n", "a\nb", "a b", "a\r\nX: y", "\x00", "ä"])
def test_wrong_tokens(text: str) -> None:
    with pytest.raises(AccessError, match=r"^here: there is no token"):
        token_of(text, "here")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xff")
    assert bytes_of(path) == b"\xff"
    with pytest.raises(AccessError, match="not a text of ASCII"):
        text_of(path)
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(AccessError, match="more than 1048576 bytes"):
        bytes_of(path)
    with pytest.raises(AccessError, match="Is a directory"):
        bytes_of(tmp_path)


HERE = Server("127.0.0.1", 1)


def test_a_server_is_verified() -> None:
    context = tls_context(Access(HERE, (CERTIFICATES / "ca.crt").read_text()))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_without_an_authority_those_of_the_host_count() -> None:
    assert tls_context(Access(HERE)).verify_mode is ssl.CERT_REQUIRED


def test_a_context_is_kept_for_the_same_access_with_authorities() -> None:
    access = Access(HERE, (CERTIFICATES / "ca.crt").read_text(), token="a")  # noqa: S106 - of a test
    assert tls_context(access) is tls_context(replace(access))
    assert tls_context(access) is not tls_context(
        replace(access, authorities=access.authorities * 2)
    )
    assert tls_context(Access(HERE)) is not tls_context(Access(HERE)), "the host's may change"


def test_certificates_that_cannot_be_used() -> None:
    with pytest.raises(AccessError, match=r"^the certificates of the authority: "):
        tls_context(Access(HERE, "-----BEGIN CERTIFICATE-----\nx"))
    key = (CERTIFICATES / "client.key").read_bytes()
    with pytest.raises(AccessError, match=r"^the client certificate and its key: "):
        tls_context(Access(HERE, certificate=b"x", key=key))
    other = (CERTIFICATES / "server.crt").read_bytes()
    with pytest.raises(AccessError, match=r"^the client certificate and its key: "):
        tls_context(Access(HERE, certificate=other, key=key))


def test_an_encrypted_key_does_not_wait_for_a_password() -> None:
    certificate = (CERTIFICATES / "client.crt").read_bytes()
    key = (CERTIFICATES / "encrypted.key").read_bytes()
    with pytest.raises(AccessError, match=r"^the client certificate and its key: "):
        tls_context(Access(HERE, certificate=certificate, key=key))


def test_an_interpreter_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ssl", None)
    with pytest.raises(AccessError, match="this Python was built without TLS"):
        tls_context(Access(HERE))


# All without capabilities, as in a pod. This one reads a file of its own by /proc, as the client's
# certificate is read, and waits for the end.
HIDDEN = """
import os, sys
from nri_numamem.daemon.privileges import drop_capabilities
assert drop_capabilities() == ""
from nri_numamem.apiserver.access import hide_from_other_processes, tls_context
assert hide_from_other_processes()
descriptor = os.memfd_create("x")
os.write(descriptor, b"own")
print(open(f"/proc/self/fd/{descriptor}").read(), flush=True)
sys.stdin.read()
"""

READER = """
import os, sys
from nri_numamem.daemon.privileges import drop_capabilities
assert drop_capabilities() == ""
try:
    os.listdir(f"/proc/{sys.argv[1]}/root")
except PermissionError:
    print("refused")
else:
    print("readable")
"""

READABLE = HIDDEN.replace("hide_from_other_processes()", "True")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to drop")
@pytest.mark.parametrize(("program", "found"), [(HIDDEN, "refused"), (READABLE, "readable")])
def test_another_process_without_capabilities(program: str, found: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "own\n"
        done = subprocess.run(
            [sys.executable, "-c", READER, str(process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        process.communicate()
    assert done.stdout.strip() == found, done.stderr


def test_a_kernel_that_refuses() -> None:
    class Refusing:
        def prctl(self, option: int, value: int, *unused: int) -> int:
            assert (option, value, *unused) == (4, 0, 0, 0, 0)
            return -1

    assert not hide_from_other_processes(Refusing())
