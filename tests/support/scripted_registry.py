# SPDX-License-Identifier: Apache-2.0
"""A registry that misbehaves on purpose: a real one's answers, unless a script takes the request over."""
import http.server
import json
import re
import socket
import ssl
import threading
import time

from registry import OCI, digest_of


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.registry.answer(self)

    do_HEAD = do_POST = do_PUT = do_GET

    def body(self):
        """What was sent with the request, as a client that waits for 100 Continue sends it (parse_request has asked)."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status, body=b"", headers=None, length=None):
        """`length`: what Content-Length says; "" leaves it out."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if length != "":
            self.send_header("Content-Length", str(len(body) if length is None else length))
        else:
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if length not in (None, len(body)):
            self.close_connection = True

    def range_begin(self):
        found = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        return int(found.group(1)) if found else 0

    def drip(self, body, piece, pause):
        """Headers for all of it, then a little at a time until somebody has had enough."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = True
        try:
            for at in range(0, len(body), piece):
                self.wfile.write(body[at:at + piece])
                self.wfile.flush()
                time.sleep(pause)
        except OSError:
            pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # clients hang up on purpose
        pass


class ScriptedRegistry:
    """`script(handler)`: True when it has answered. `requests`: (method, path, Authorization, Range) in order."""

    def __init__(self, images=None, script=None, address="127.0.0.1", certificate=None):
        self.images = images or {}  # "app:1" -> MadeImage
        self.script = script or (lambda handler: False)
        self.requests = []
        self.pushed = {}  # "name" -> blobs and manifests that came, by digest or tag
        self.server = Server((address, 0), Handler)
        self.server.registry = self
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.port = self.server.server_address[1]
        self.name = f"{address}:{self.port}"
        self.url = f"{scheme}://{self.name}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler):
        self.requests.append((handler.command, handler.path, handler.headers.get("Authorization"),
                              handler.headers.get("Range")))
        try:
            if not self.script(handler):
                self.answer_well(handler)
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True

    def take(self, handler):
        """A push, as the specification has it."""
        begins = re.match(r"/v2/(.+)/blobs/uploads/(?:\?|$)", handler.path)
        if handler.command == "POST" and begins:
            handler.body()
            return handler.send(202, b"", {"Location": f"/v2/{begins.group(1)}/blobs/uploads/{len(self.requests)}?state=1"})
        blob = re.match(r"/v2/(.+)/blobs/uploads/\d+\?state=1&digest=(.+)$", handler.path)
        manifest = re.match(r"/v2/(.+)/manifests/(.+)$", handler.path)
        if handler.command != "PUT" or not (blob or manifest):
            return handler.send(405)
        name, key = (blob or manifest).groups()
        data = handler.body()
        if blob and digest_of(data) != key:
            return handler.send(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')
        self.pushed.setdefault(name, {})[key] = data
        return handler.send(201, b"", {"Docker-Content-Digest": digest_of(data)})

    def answer_well(self, handler):
        if handler.command in ("POST", "PUT"):
            return self.take(handler)
        found = re.match(r"/v2/(.+)/(manifests|blobs)/([^/?]+)$", handler.path)
        if not found:
            return handler.send(404)
        name, kind, reference = found.groups()
        if reference in self.pushed.get(name, {}):
            data = self.pushed[name][reference]
            return self.send_manifest(handler, data) if kind == "manifests" else handler.send(200, data)
        for tag, image in self.images.items():
            if not tag.startswith(name + ":"):
                continue
            if kind == "manifests" and tag == f"{name}:{reference}":
                return self.send_manifest(handler, image.top if hasattr(image, "top") else image.manifest)
            data = image.blobs.get(reference)
            if data is not None and kind == "manifests":
                return self.send_manifest(handler, data)
            if data is not None:
                begin = handler.range_begin()
                if begin:
                    return handler.send(206, data[begin:], {
                        "Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"})
                return handler.send(200, data)
        return handler.send(404, b'{"errors":[]}')

    @staticmethod
    def send_manifest(handler, text):
        try:
            kind = json.loads(text).get("mediaType", OCI + "manifest.v1+json")
        except ValueError:
            kind = OCI + "manifest.v1+json"
        handler.send(200, text, {"Content-Type": kind, "Docker-Content-Digest": digest_of(text)})

    def paths(self, part=""):
        return [path for _, path, _, _ in self.requests if part in path]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def reset(handler):
    """Closes the connection with a RST."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.close_connection = True
    handler.connection.close()
