# SPDX-License-Identifier: Apache-2.0
"""A registry that speaks HTTP/2 (python3-h2) and misbehaves on purpose, and a relay that counts connections."""
import json
import re
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from registry import OCI, digest_of

WINDOW_WAIT = 30  # seconds


class Stream:
    """One request; its script answers on a thread of its own."""

    def __init__(self, connection, number, headers):
        self.connection = connection
        self.number = number
        self.headers = dict(headers)
        self.path = self.headers[":path"]

    def range_begin(self):
        found = re.match(r"bytes=(\d+)-$", self.headers.get("range", ""))
        return int(found.group(1)) if found else 0

    def head(self, status, headers=(), end=False):
        self.connection.do(lambda h2c: h2c.send_headers(self.number, [(":status", str(status)), *headers], end_stream=end))

    def data(self, data, end=False):
        """As the peer's windows let it go."""
        sent = 0
        while sent < len(data):
            size = self.connection.room(self.number, len(data) - sent)
            piece = data[sent:sent + size]
            sent += size
            self.connection.do(lambda h2c, p=piece: h2c.send_data(self.number, p, end_stream=end and sent == len(data)))

    def blob(self, data, until=None):
        """All of it from where it was asked for, or until that offset without an end."""
        begin = self.range_begin()
        headers = [("content-length", str(len(data) - begin))]
        if begin:
            headers.append(("content-range", f"bytes {begin}-{len(data) - 1}/{len(data)}"))
        self.head(206 if begin else 200, headers)
        self.data(data[begin:until], end=until is None)

    def reset(self, code):
        self.connection.do(lambda h2c: h2c.reset_stream(self.number, error_code=code))


class Connection:
    def __init__(self, registry, sock):
        self.registry = registry
        self.sock = sock
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.changed = threading.Condition()
        self.closed = False

    def do(self, act):
        """`act(h2)`, and what it wants sent goes."""
        with self.changed:
            act(self.h2)
            self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def room(self, number, wanted):
        with self.changed:
            def space():
                return self.closed or min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
            if not self.changed.wait_for(space, WINDOW_WAIT) or self.closed:
                raise ConnectionResetError("no room, or hung up")
            return min(wanted, space())

    def go_away(self, last_stream, code=0):
        def act(h2c):
            # h2 closes its own side with close_connection(): what is under way is to go on.
            from hyperframe.frame import GoAwayFrame
            self.sock.sendall(h2c.data_to_send() + GoAwayFrame(0, last_stream_id=last_stream, error_code=code).serialize())
        self.do(act)

    def hang_up(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def serve(self):
        with self.changed:
            self.h2.initiate_connection()
            self.h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.registry.streams})
            self.flush()
        try:
            while data := self.sock.recv(65536):
                with self.changed:
                    events = self.h2.receive_data(data)
                    self.flush()
                    self.changed.notify_all()
                for event in events:
                    if isinstance(event, h2.events.RequestReceived):
                        stream = Stream(self, event.stream_id, event.headers)
                        threading.Thread(target=self.registry.answer, args=(stream,), daemon=True).start()
        except (OSError, h2.exceptions.ProtocolError):
            pass
        self.hang_up()


class H2Registry:
    """`script(stream)`: True when it has answered. `connections`: those that came; `requests`: (path, Range) in order."""

    def __init__(self, certificate, images, script=None, streams=100):
        self.images = images
        self.script = script or (lambda stream: False)
        self.streams = streams
        self.connections = []
        self.requests = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        context.set_alpn_protocols(["h2"])
        self.context = context
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.name = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.shake_hands, args=(sock,), daemon=True).start()

    def shake_hands(self, sock):
        try:
            connection = Connection(self, self.context.wrap_socket(sock, server_side=True))
        except OSError:
            return
        self.connections.append(connection)
        connection.serve()

    def answer(self, stream):
        self.requests.append((stream.path, stream.headers.get("range")))
        try:
            if not self.script(stream):
                self.answer_well(stream)
        except (OSError, KeyError, h2.exceptions.ProtocolError):
            pass  # the peer has hung up, or has had enough of the stream

    def answer_well(self, stream):
        name, kind, reference = re.match(r"/v2/(.+)/(manifests|blobs)/([^/?]+)$", stream.path).groups()
        image = self.images.get(f"{name}:{reference}") if kind == "manifests" else None
        data = image.manifest if image else next(
            (one.blobs[reference] for tag, one in self.images.items() if tag.startswith(name + ":") and reference in one.blobs), None)
        if data is None:
            stream.head(404, end=True)
        elif kind == "manifests":
            stream.head(200, [("content-type", json.loads(data).get("mediaType", OCI + "manifest.v1+json")),
                              ("content-length", str(len(data))), ("docker-content-digest", digest_of(data))],
                        end=stream.headers[":method"] == "HEAD")
            if stream.headers[":method"] != "HEAD":
                stream.data(data, end=True)
        else:
            stream.blob(data)

    def ranges(self, digest):
        return [one for path, one in self.requests if digest in path]

    def stop(self):
        self.listener.close()
        for connection in self.connections:
            connection.hang_up()


class Relay:
    """Bytes as they are to 127.0.0.1:`port`; `connections`: how many came."""

    def __init__(self, port):
        self.port = port
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.name = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self.port))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(source, target), daemon=True).start()

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(1 << 18):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self.listener.close()
