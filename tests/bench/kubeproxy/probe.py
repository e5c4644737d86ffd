# SPDX-License-Identifier: Apache-2.0
"""Connections through a Service: two endpoints that listen on addresses of the loopback interface,
and a client. One thread; connect() over loopback returns when the first packet is answered."""
import socket
import struct
import subprocess
import time

PORT = 8080
NODE = "10.251.0.2"  # of the uplink
ENDPOINTS = ("10.250.0.1", "10.250.0.2")
# The client's while there may be no rules yet: the connection table keeps for minutes that such a
# packet was not translated, and whoever had the same port again would be lost.
EARLY_CLIENT = "10.250.0.3"
RESET = struct.pack("ii", 1, 0)
LOOK_EVERY = 0.0002  # who polls without a pause takes one of two processors from who is measured


def prepare_network():
    for command in ("link set lo up", *(f"address add {a}/32 dev lo" for a in (*ENDPOINTS, EARLY_CLIENT)),
                    "link add up0 type veth peer name up1", f"address add {NODE}/24 dev up0",
                    "link set up0 up", "link set up1 up", "route add default via 10.251.0.1"):
        subprocess.run(["ip", *command.split()], check=True)


class Probe:
    def __init__(self):
        self.servers = []
        for address in ENDPOINTS:
            server = socket.socket()
            server.bind((address, PORT))
            server.listen(64)
            server.setblocking(False)
            self.servers.append(server)

    def connect(self, address, patience=0.005, client_address=NODE):
        """Which endpoint answered (None: nobody did in time) and how many milliseconds connect() took.
        Where nobody answers, the packet is dropped or leaves by the default route."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)  # leaves no socket behind
        client.bind((client_address, 0))
        client.settimeout(patience)
        failed = False
        began = time.perf_counter()
        try:
            client.connect((address, 80))
        except OSError:
            failed = True
        took = (time.perf_counter() - began) * 1000
        answered = None
        for i, server in enumerate(self.servers):
            try:
                server.accept()[0].close()
                answered = i
            except BlockingIOError:
                pass
        client.close()
        return (None if failed else answered), took

    def milliseconds_until(self, address, endpoint, began, patience, client_address=NODE):
        """From `began` to the first connection that the endpoint has answered."""
        while (now := time.perf_counter()) - began < patience:
            if self.connect(address, client_address=client_address)[0] == endpoint:
                return (time.perf_counter() - began) * 1000
            time.sleep(LOOK_EVERY)
        raise TimeoutError(f"{address} is not answered by endpoint {endpoint} after {now - began:.0f} s")
