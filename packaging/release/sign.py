"""The signature of the checksums by a key of SSH, which ssh-keygen makes and checks."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from release import sources
from release.errors import ReleaseError

SIGNERS = sources.ROOT / "packaging/release/allowed_signers"
"""The public keys of those who make releases; a user checks a release with this file."""
IDENTITY = "nri-numamem"
NAMESPACE = "file"


def problems(key: Path, signers: Path) -> Iterator[str]:
    """Yield what keeps a release from being signed."""
    if not key.is_file():
        yield f"{key}: no such file; give a private key of SSH"
    if not signers.is_file():
        yield f"{signers.name} is missing in packaging/release; see docs/release.md, The key"


def sign(sums: Path, key: Path, signers: Path) -> None:
    """Write the signature beside the checksums, and check it as a user does.

    Raises ReleaseError if ssh-keygen fails, or if the key is not one of the signers.
    """
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)  # ssh-keygen would ask
    _ssh_keygen("-Y", "sign", "-q", "-f", key, "-n", NAMESPACE, sums)
    try:
        verify(sums, signers)
    except ReleaseError as error:
        signature.unlink()
        raise ReleaseError(f"{error}; add the public key of {key} to {signers.name}") from error


def verify(sums: Path, signers: Path) -> None:
    """Raise ReleaseError unless the signature beside the checksums is that of a signer."""
    signature = sums.with_name(f"{sums.name}.sig")
    known = ("-f", signers, "-I", IDENTITY, "-n", NAMESPACE, "-s", signature)
    _ssh_keygen("-Y", "verify", *known, text=sums.read_bytes())


def _ssh_keygen(*arguments: str | Path, text: bytes | None = None) -> None:
    """Run ssh-keygen, which may ask for the passphrase of the key."""
    command = ("ssh-keygen", *map(str, arguments))
    try:
        done = subprocess.run(command, input=text, capture_output=True, check=False)
    except FileNotFoundError:
        raise ReleaseError("ssh-keygen is missing; install openssh-client") from None
    if done.returncode:
        reason = (done.stderr or done.stdout).decode().strip().rstrip(".")
        raise ReleaseError(f"{' '.join(command[:3])}: {reason}")
