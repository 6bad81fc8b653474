"""TLS contexts; tests/apiserver/test_client.py uses them on a server."""

import ssl
import sys

import pytest

from nri_numamem.apiserver import tls
from nri_numamem.apiserver.access import Access, AccessError, Server
from tests.kubernetes_api import CERTIFICATES

HERE = Server("127.0.0.1", 1)


def test_a_server_is_verified() -> None:
    context = tls.new_context(Access(HERE, (CERTIFICATES / "ca.crt").read_text()))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_without_an_authority_those_of_the_host_count() -> None:
    assert tls.new_context(Access(HERE)).verify_mode is ssl.CERT_REQUIRED


def test_certificates_that_cannot_be_used() -> None:
    with pytest.raises(AccessError, match=r"^the certificates of the authority: "):
        tls.new_context(Access(HERE, "-----BEGIN CERTIFICATE-----\nx"))
    key = (CERTIFICATES / "client.key").read_bytes()
    with pytest.raises(AccessError, match=r"^the client certificate and its key: "):
        tls.new_context(Access(HERE, certificate=b"x", key=key))
    other = (CERTIFICATES / "server.crt").read_bytes()
    with pytest.raises(AccessError, match=r"^the client certificate and its key: "):
        tls.new_context(Access(HERE, certificate=other, key=key))


def test_an_encrypted_key_does_not_wait_for_a_password() -> None:
    certificate = (CERTIFICATES / "client.crt").read_bytes()
    key = (CERTIFICATES / "encrypted.key").read_bytes()
    with pytest.raises(AccessError, match=r"^the client certificate and its key: "):
        tls.new_context(Access(HERE, certificate=certificate, key=key))


def test_an_interpreter_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ssl", None)
    with pytest.raises(AccessError, match="this Python was built without TLS"):
        tls.new_context(Access(HERE))
