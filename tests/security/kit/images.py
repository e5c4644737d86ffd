# SPDX-License-Identifier: Apache-2.0
"""Writes images, hostile ones too: tar members with any header bytes, OCI layouts and docker archives
with any documents. Nothing is checked here; refusing is the product's work."""
import dataclasses
import hashlib
import io
import json
import platform

BLOCK = 512
KINDS = {"file": b"0", "hardlink": b"1", "symlink": b"2", "char": b"3", "block": b"4", "dir": b"5",
         "fifo": b"6", "pax": b"x", "global": b"g", "longname": b"L", "longlink": b"K", "sparse": b"S"}
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@dataclasses.dataclass
class Member:
    """One tar member. `pax`: records before it, keys and values as they are. `size`: what the header
    says, if not the content's length. `device`: (major, minor)."""
    name: str | bytes
    kind: str = "file"
    content: bytes = b""
    link: str | bytes = b""
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    device: tuple = (0, 0)
    size: int | None = None
    pax: dict = dataclasses.field(default_factory=dict)


def raw(text):
    return text if isinstance(text, bytes) else text.encode()


def number(value, width):
    """Octal, or base 256 (GNU) where that does not fit."""
    octal = b"%0*o" % (width - 1, value) if value >= 0 else b"x" * width
    if len(octal) < width:
        return octal + b"\0"
    return b"\x80" + (value % (1 << 8 * (width - 1))).to_bytes(width - 1, "big")


def header(member, size):
    name, prefix = raw(member.name), b""
    if len(name) > 100:
        cut = name.rfind(b"/", 0, 155)
        name, prefix = name[cut + 1:], name[:max(cut, 0)]
    fields = [name.ljust(100, b"\0")[:100], number(member.mode, 8), number(member.uid, 8),
              number(member.gid, 8), number(size, 12), number(1600000000, 12), b" " * 8,
              KINDS.get(member.kind, raw(member.kind)[:1]), raw(member.link).ljust(100, b"\0")[:100],
              b"ustar\0" + b"00", b"\0" * 64, number(member.device[0], 8), number(member.device[1], 8),
              prefix.ljust(155, b"\0")]
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padded(content):
    return content + b"\0" * (-len(content) % BLOCK)


def pax_records(records):
    out = b""
    for key, value in records.items():
        body = b" " + raw(key) + b"=" + raw(value) + b"\n"
        length = len(body)
        while length != len(body) + len(str(length)):
            length = len(body) + len(str(length))
        out += str(length).encode() + body
    return out


def tar(members):
    out = io.BytesIO()
    for member in members:
        if member.pax:
            records = pax_records(member.pax)
            out.write(header(Member("pax", "pax"), len(records)) + padded(records))
        out.write(header(member, len(member.content) if member.size is None else member.size))
        out.write(padded(member.content))
    return out.getvalue() + b"\0" * 2 * BLOCK


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def document(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@dataclasses.dataclass
class Image:
    """`layers`: tar bytes, plain. `config`: the part of the same name in the image's configuration.
    `stored`: what a layer's blob holds, if not the layer (compressed, cut off). The rest replaces a
    whole document or a field."""
    layers: list
    config: dict = dataclasses.field(default_factory=dict)
    stored: list | None = None
    media: str = "application/vnd.oci.image.layer.v1.tar"
    descriptor: dict = dataclasses.field(default_factory=dict)  # changes every layer's descriptor
    diff_ids: list | None = None
    config_document: object = None
    manifest: dict = dataclasses.field(default_factory=dict)
    index: object = None

    def documents(self):
        config = self.config_document if self.config_document is not None else {
            "architecture": ARCHITECTURE, "os": "linux", "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": self.diff_ids if self.diff_ids is not None
                       else [digest(layer) for layer in self.layers]}}
        return document(config), self.stored if self.stored is not None else self.layers

    def oci(self):
        """The tar of an OCI layout."""
        config, blobs = self.documents()
        layers = [{"mediaType": self.media, "digest": digest(b), "size": len(b), **self.descriptor}
                  for b in blobs]
        manifest = document({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config),
                       "size": len(config)}, "layers": layers, **self.manifest})
        index = self.index if self.index is not None else {
            "schemaVersion": 2, "manifests": [{
                "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(manifest),
                "size": len(manifest)}]}
        if callable(index):
            index = index(manifest)
        members = [Member("oci-layout", content=b'{"imageLayoutVersion":"1.0.0"}'),
                   Member("index.json", content=document(index))]
        members += [Member("blobs/sha256/" + digest(b)[7:], content=b) for b in [manifest, config, *blobs]]
        return tar(members)

    def docker(self):
        """The tar of `docker save`."""
        config, blobs = self.documents()
        names = [f"{n}/layer.tar" for n in range(len(blobs))]
        manifest = [{"Config": "config.json", "RepoTags": ["attack/docker:1"], "Layers": names, **self.manifest}]
        members = [Member("manifest.json", content=document(manifest)), Member("config.json", content=config)]
        return tar(members + [Member(n, content=b) for n, b in zip(names, blobs)])
