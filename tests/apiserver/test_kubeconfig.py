"""Kubeconfig files: what is supported, and one line for what is not."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.apiserver.access import Access, AccessError, Server
from nri_numamem.apiserver.kubeconfig import read_kubeconfig


def config(user: object = None, cluster: object = None, **changes: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "b",
        "contexts": [
            {"name": "a", "context": {"cluster": "x", "user": "x"}},
            {"name": "b", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://h:6443"}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        **changes,
    }


def read(directory: Path, document: object) -> Access:
    path = directory / "kubeconfig"
    path.write_text(json.dumps(document))
    return read_kubeconfig(path)


def test_a_token(tmp_path: Path) -> None:
    assert read(tmp_path, config()) == Access(Server("h", 6443), "", "t")


def test_yaml(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "kind: Config\n"
        "current-context: b\n"
        "contexts: [{name: b, context: {cluster: c, user: u, namespace: x}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://h:6443'}}]\n"
        "users:\n- name: u\n  user: {token: t}\n"
        "preferences: {}\n"
    )
    assert read_kubeconfig(path) == Access(Server("h", 6443), "", "t")


def test_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("ca", "crt", "key", "token"):
        (tmp_path / "pki" / name).write_text(f"the {name}" if name != "token" else "tok\n")
    user = {
        "client-certificate": "pki/crt",
        "client-key": "pki/key",
        "tokenFile": "pki/token",
        "token": "x",
    }
    cluster = {"server": "https://h", "certificate-authority": "pki/ca", "tls-server-name": "n"}
    access = read(tmp_path, config(user, cluster))
    server = Server("h", 443, tls_name="n")
    assert access == Access(server, "the ca", "tok", b"the crt", b"the key")
    user["tokenFile"] = str(tmp_path / "pki" / "token")
    assert read(tmp_path, config(user, cluster)) == access


def test_inline_data(tmp_path: Path) -> None:
    def data(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    user = {
        "client-certificate-data": data("crt"),
        "client-key-data": data("key"),
        "client-key": "/no",
    }
    cluster = {"server": "https://h", "certificate-authority-data": data("ca")}
    access = read(tmp_path, config(user, cluster))
    assert access == Access(Server("h", 443), "ca", "", b"crt", b"key")
    assert "key=" not in repr(access)


USERS = {
    "exec": {"command": "aws"},
    "auth-provider": {"name": "gcp"},
    "username": "admin",
    "password": "x",
    "as": "root",
    "as-uid": "1",
    "as-groups": ["g"],
    "as-user-extra": {"a": ["b"]},
}


@pytest.mark.parametrize("key", USERS)
def test_users_that_are_not_supported(tmp_path: Path, key: str) -> None:
    with pytest.raises(AccessError, match=rf"kubeconfig: {key} is not supported; use [a-z]"):
        read(tmp_path, config({key: USERS[key]}))


@pytest.mark.parametrize(
    ("key", "value"), [("insecure-skip-tls-verify", True), ("proxy-url", "http://p")]
)
def test_clusters_that_are_not_supported(tmp_path: Path, key: str, value: object) -> None:
    cluster = {"server": "https://h", key: value}
    with pytest.raises(AccessError, match=rf"kubeconfig: {key} is not supported; name "):
        read(tmp_path, config(None, cluster))


def test_a_verified_cluster_may_say_so(tmp_path: Path) -> None:
    cluster = {"server": "https://h", "insecure-skip-tls-verify": False}
    assert read(tmp_path, config(None, cluster)).server.host == "h"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "not a kubeconfig"),
        ({"kind": "Pod"}, "not a kubeconfig"),
        (config(**{"current-context": ""}), "no current-context; set one"),
        (config(**{"current-context": "z"}), "no context 'z' in contexts"),
        (config(contexts=None), "no context 'b' in contexts"),
        (config(contexts=["b", {"name": "b", "context": None}]), "no context 'b' in contexts"),
        (config(clusters=[]), "no cluster 'c' in clusters"),
        (config(users=[]), "no user 'u' in users"),
        (config({"token": 1}), "token is not a text"),
        (config({"token": "a b"}), "token: there is no token"),
        (config({"tokenFile": "none"}), "none: No such file"),
        (config({"client-certificate-data": "?"}), "client-certificate-data is not base64"),
        (config({"client-certificate-data": "YQ=="}), "client-key belong together"),
        (config({"client-key-data": "YQ=="}), "client-key belong together"),
        (
            config(None, {"server": "https://h", "certificate-authority-data": "/w=="}),
            "certificate-authority is not in PEM",
        ),
        (config(None, {"server": "h"}), "server: 'h' is not a URL"),
    ],
)
def test_errors(tmp_path: Path, document: object, problem: str) -> None:
    with pytest.raises(AccessError, match=problem) as caught:
        read(tmp_path, document)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_file_that_is_no_yaml(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("a: [")
    with pytest.raises(AccessError, match="kubeconfig:1: "):
        read_kubeconfig(path)
    with pytest.raises(AccessError, match="none: No such file"):
        read_kubeconfig(tmp_path / "none")
