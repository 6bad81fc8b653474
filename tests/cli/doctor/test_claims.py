"""What resource claims need on the host."""

import os
import socket
from collections.abc import Callable

import pytest

from nri_numamem.cli.doctor.findings import Verdict
from nri_numamem.cli.installation import hook_program
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe.claim_files import (
    Answer,
    Intent,
    directory_of,
    intents_file,
    write_answers,
    write_intents,
)
from tests.cli.doctor.host_files import CONFIG, CONTAINERD, STATE, HostFiles, expect_fault

PROGRAM = "usr/libexec/nri-numamem/claim-hook"
SOCKET = "var/lib/kubelet/plugins_registry/numamem.io-reg.sock"
CHECKS = ("claim_hook", "cdi", "claim_agent", "claims")
ON_BY_DEFAULT = (
    "does not set enable_cdi, which is on by default from containerd 2; set it with containerd 1.7"
)
CLAIM = Claim("uid-1", "telco", "upf-numa", {"mem": {0: {"memory": 4096}}})


@pytest.fixture(name="host")
def _host(good_host: HostFiles) -> HostFiles:
    """Return a host with everything that claims need."""
    good_host.write(CONFIG, "claims: {enabled: true}\n")
    good_host.write(PROGRAM, "program")
    good_host.path(PROGRAM).chmod(0o755)
    good_host.path(SOCKET).parent.mkdir(parents=True)
    directory = os.open(good_host.path(SOCKET).parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as sock:  # a path below a test's directory may be too long
        sock.bind(f"/proc/self/fd/{directory}/{good_host.path(SOCKET).name}")
    os.close(directory)
    return good_host


def texts(host: HostFiles) -> list[tuple[Verdict, str]]:
    found = host.findings()
    return [(found[check].verdict, found[check].text) for check in CHECKS if check in found]


def test_a_host_with_everything(host: HostFiles) -> None:
    assert texts(host) == [
        (Verdict.OK, f"/{PROGRAM} checks containers with claims"),
        (Verdict.OK, f"/{CONTAINERD} {ON_BY_DEFAULT}"),
        (Verdict.OK, "the agent offers its driver to the kubelet"),
        (Verdict.OK, "0 claims prepared"),
    ]


def test_without_the_setting_nothing_is_checked(good_host: HostFiles) -> None:
    assert texts(good_host) == []


def _without_program(host: HostFiles) -> None:
    host.path(PROGRAM).unlink()


def _without_execution(host: HostFiles) -> None:
    host.path(PROGRAM).chmod(0o644)


def _without_cdi(host: HostFiles) -> None:
    host.write(CONTAINERD, '[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false\n')


def _with_other_directory(host: HostFiles) -> None:
    table = '[plugins."io.containerd.grpc.v1.cri"]\n'
    host.write(CONTAINERD, f'{table}enable_cdi = true\ncdi_spec_dirs = ["/etc/cdi", "/x/cdi/"]\n')


def _without_agent(host: HostFiles) -> None:
    host.path(SOCKET).unlink()


def _with_old_intent(host: HostFiles) -> None:
    write_intents(directory_of(host.path(STATE)), [Intent(CLAIM, "try-1")])
    write_answers(directory_of(host.path(STATE)), {"uid-1": Answer("try-0")})


def _without_setting(host: HostFiles) -> None:
    _with_old_intent(host)
    host.write(CONFIG, "")


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (_without_program, "claim_hook", Verdict.FAIL, "does not exist or is not executable"),
        (_without_execution, "claim_hook", Verdict.FAIL, "does not exist or is not executable"),
        (_without_cdi, "cdi", Verdict.FAIL, f"/{CONTAINERD} disables CDI"),
        (
            _with_other_directory,
            "cdi",
            Verdict.FAIL,
            "containerd reads CDI specifications from /etc/cdi, /x/cdi, not /var/run/cdi",
        ),
        (_without_agent, "claim_agent", Verdict.FAIL, "no agent offers the driver numamem.io"),
        (
            _with_old_intent,
            "claims",
            Verdict.WARN,
            "the plugin has not answered 1 claim: telco/upf-numa",
        ),
        (
            _without_setting,
            "claims",
            Verdict.FAIL,
            "1 claim prepared, and the setting claims.enabled is off",
        ),
    ],
)
def test_what_is_missing(
    host: HostFiles,
    change: Callable[[HostFiles], None],
    check: str,
    verdict: Verdict,
    text: str,
) -> None:
    expect_fault(host, change, check, verdict, text)


def test_a_directory_with_a_link_is_the_same(host: HostFiles) -> None:
    table = '[plugins."io.containerd.cri.v1.runtime"]\n'
    host.write(CONTAINERD, f'{table}enable_cdi = true\ncdi_spec_dirs = ["/run/cdi"]\n')
    found = host.findings()["cdi"]
    assert (found.verdict, found.text) == (
        Verdict.OK,
        "containerd adds CDI devices from /var/run/cdi",
    )


def test_cri_o_has_cdi(host: HostFiles) -> None:
    host.path(CONTAINERD).unlink()
    host.write("etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n")
    assert host.findings()["cdi"].text == "CRI-O adds CDI devices from /var/run/cdi"
    host.write("etc/crio/crio.conf.d/x", '[crio.runtime]\ncdi_spec_dirs = ["/etc/cdi"]\n')
    assert "not /var/run/cdi" in host.findings()["cdi"].text


def test_another_program_or_file_system(host: HostFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_program, "carried", lambda: b"other")
    found = host.findings()["claim_hook"]
    assert (found.verdict, found.text) == (
        Verdict.WARN,
        f"/{PROGRAM} is not the hook program of this version",
    )
    statvfs = os.statvfs(host.root)
    noexec = os.statvfs_result((*statvfs[:8], os.ST_NOEXEC, *statvfs[9:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: noexec)
    assert "mounted noexec" in host.findings()["claim_hook"].text


def test_refusals_are_counted(host: HostFiles) -> None:
    directory = directory_of(host.path(STATE))
    write_intents(directory, [Intent(CLAIM, "try-1")])
    write_answers(directory, {"uid-1": Answer("try-1", "no room")})
    assert host.findings()["claims"].text == "1 claim prepared, 1 of them refused"


def test_claims_that_cannot_be_read(host: HostFiles) -> None:
    file = intents_file(directory_of(host.path(STATE)))
    file.mkdir(parents=True)
    found = host.findings()["claims"]
    assert (found.verdict, found.text) == (
        Verdict.UNKNOWN,
        f"{directory_of(host.path(STATE))}: Is a directory",
    )
    file.rmdir()
    file.write_text("{")
    found = host.findings()["claims"]
    assert (found.verdict, found.text[: found.text.index(": not JSON")]) == (
        Verdict.FAIL,
        str(file),
    )
