"""Addresses, tokens and the files of a service account."""

from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.apiserver.access import (
    Access,
    AccessError,
    Server,
    bytes_of,
    in_cluster,
    server_of,
    text_of,
    token_of,
)

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
