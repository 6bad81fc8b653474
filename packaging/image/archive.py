"""The image as one tar archive: an OCI image layout that is also in the format of `docker save`.

Sources: OCI image specification (image-layout.md, config.md); containerd images/archive/importer.go
for the annotation with the full name. The same input gives the same bytes.
"""

import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from image.root import PROGRAM, Entry

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
ENTRYPOINT = [f"/{PROGRAM}"]
COMMAND = ["run"]
ENVIRONMENT = {"PATH": "/usr/bin"}
TITLE = "nri-numamem"
DESCRIPTION = "NUMA memory placement for Kubernetes containers, an NRI plugin"

_GZIP = 31  # wbits of zlib: the format of gzip, without a name and a time
_LEVEL = 6
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


def labels(version: str) -> dict[str, str]:
    """Return the labels of the image."""
    values = {"title": TITLE, "description": DESCRIPTION, "version": version}
    values["licenses"] = "Apache-2.0 AND LGPL-2.1-or-later"
    return {f"org.opencontainers.image.{key}": value for key, value in values.items()}


def write(path: Path, content: Sequence[Entry], name: str, version: str, date_s: int) -> str:
    """Write the archive of the image `name`:`version`; return the digest of its manifest."""
    layer = _tar(content, date_s)
    compressed = _compress(layer)
    config = _config(layer, version, date_s)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, compressed)],
        }
    )
    annotations = {
        "io.containerd.image.name": f"{name}:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    platform = {"architecture": ARCHITECTURES[os.uname().machine], "os": "linux"}
    entry = _descriptor(_MANIFEST, manifest)
    entry |= {"platform": platform, "annotations": annotations}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}
    docker = {
        "Config": _blob(config),
        "RepoTags": [f"{name}:{version}"],
        "Layers": [_blob(compressed)],
    }
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        "manifest.json": _json([docker]),
        **{_blob(data): data for data in (manifest, config, compressed)},
    }
    folders = [Entry(folder, 0o755) for folder in ("blobs", "blobs/sha256")]
    members = [*folders, *(Entry(file, 0o644, data) for file, data in sorted(files.items()))]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(_tar(members, date_s))
    partial.replace(path)
    return _digest(manifest)


def _config(layer: bytes, version: str, date_s: int) -> bytes:
    created = datetime.fromtimestamp(date_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return _json(
        {
            "created": created,
            "architecture": ARCHITECTURES[os.uname().machine],
            "os": "linux",
            "config": {
                # Only root may connect to the runtime's NRI socket.
                "User": "0:0",
                "Env": [f"{key}={value}" for key, value in ENVIRONMENT.items()],
                "Entrypoint": ENTRYPOINT,
                "Cmd": COMMAND,
                "Labels": labels(version),
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "history": [{"created": created, "created_by": "packaging/image"}],
        }
    )


def _tar(content: Sequence[Entry], date_s: int) -> bytes:
    """Return a tar archive whose files belong to root."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in content:
            member = tarfile.TarInfo(entry.path)
            member.mode, member.mtime = entry.mode, date_s
            if entry.target:
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
            elif entry.content is None:
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(entry.content)
            archive.addfile(member, io.BytesIO(entry.content or b""))
    return output.getvalue()


def _compress(data: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return compressor.compress(data) + compressor.flush()


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blob(data: bytes) -> str:
    return f"blobs/{_digest(data).replace(':', '/')}"


def _descriptor(kind: str, data: bytes) -> dict[str, str | int | Mapping[str, str]]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}
