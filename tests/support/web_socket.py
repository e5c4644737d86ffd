# SPDX-License-Identifier: Apache-2.0
"""A WebSocket over TLS as clients of a kubelet open it; the certificate is not looked at."""
import base64
import os
import socket
import ssl
import struct


class WebSocket:
    def __init__(self, address, path, protocol="v5.channel.k8s.io"):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.stream = context.wrap_socket(socket.create_connection(address, 30))
        self.stream.settimeout(30)
        self.stream.sendall((f"GET {path} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {protocol}\r\n"
                             f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n").encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.some()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])
        self.channels = {}

    def some(self):
        piece = self.stream.recv(65536)
        if not piece:
            raise EOFError("the connection ended")
        return piece

    def take(self, count):
        while len(self.rest) < count:
            self.rest += self.some()
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def send(self, message):
        size = len(message)
        head = bytes([0x82, 0x80 | size]) if size < 126 else struct.pack(">BBH", 0x82, 0x80 | 126, size)
        self.stream.sendall(head + bytes(4) + message)  # masked with zeros

    def receive(self):
        """One message into `channels`; False at the Close frame."""
        first, size = self.take(2)
        if size == 126:
            size = struct.unpack(">H", self.take(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self.take(8))[0]
        body = self.take(size)
        if first & 0xF == 8:
            return False
        if body:
            self.channels[body[0]] = self.channels.get(body[0], b"") + body[1:]
        return True

    def until(self, channel, text):
        while text not in self.channels.get(channel, b""):
            if not self.receive():
                raise EOFError(f"closed without {text}: {self.channels}")

    def all(self):
        while self.receive():
            pass
        return self.channels

    def close(self):
        self.stream.close()
