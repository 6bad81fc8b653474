"""The signature of the checksums, made by the release and checked as docs/install.md says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from release import sign
from release.errors import ReleaseError

from tests.packaging.release_builds import ROOT, run

INSTALL = (ROOT / "docs/install.md").read_text()


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """Return a directory with a file, its checksum, a key, and the key's owner as a signer."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is missing; run tests/packaging/install-tools")
    (tmp_path / "artefact").write_text("text")
    sums = run("sha256sum", "artefact", "RELEASE_NOTES.md", cwd=tmp_path).stdout
    (tmp_path / "SHA256SUMS").write_text(sums)
    public = new_key(tmp_path / "key")
    (tmp_path / "allowed_signers").write_text(f'nri-numamem namespaces="file" {public}')
    return tmp_path


def new_key(path: Path) -> str:
    """Make a key without a passphrase; return its public part."""
    command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", path)
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text()


def sign_in(folder: Path, key: str = "key") -> None:
    sign.sign(folder / "SHA256SUMS", folder / key, folder / "allowed_signers")


def documented_check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of the section in docs/install.md."""
    section = INSTALL.partition("\n## Download and verify\n")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found
    return run("sh", "-e", "-c", found[1], cwd=folder)


def test_a_user_can_check_a_release(folder: Path) -> None:
    sign_in(folder)
    sign_in(folder)  # a second time
    done = documented_check(folder)
    assert done.returncode == 0, done.stderr
    assert 'Good "file" signature for nri-numamem' in done.stdout
    assert "artefact: OK" in done.stdout


@pytest.mark.parametrize("changed", ["SHA256SUMS", "artefact"])
def test_a_user_notices_a_change(folder: Path, changed: str) -> None:
    sign_in(folder)
    with (folder / changed).open("a") as file:
        file.write(f"{'0' * 64}  other\n")
    assert documented_check(folder).returncode != 0


def test_the_key_of_another_is_not_accepted(folder: Path) -> None:
    new_key(folder / "other")
    with pytest.raises(
        ReleaseError, match=r"verify: \S.*; add the public key of .*other to allowed_signers"
    ):
        sign_in(folder, "other")
    assert not (folder / "SHA256SUMS.sig").exists()


def test_what_is_missing_is_named_before_the_build(tmp_path: Path) -> None:
    found = list(sign.problems(tmp_path / "key", tmp_path / "allowed_signers"))
    assert len(found) == 2
    assert "give a private key of SSH" in found[0]
    assert "see docs/release.md" in found[1]
    (tmp_path / "key").touch()
    (tmp_path / "allowed_signers").touch()
    assert list(sign.problems(tmp_path / "key", tmp_path / "allowed_signers")) == []


def test_without_ssh_keygen_there_is_a_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ReleaseError, match="install openssh-client"):
        sign_in(folder)
