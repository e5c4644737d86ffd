# SPDX-License-Identifier: Apache-2.0
"""A watch that goes on after the API server has ended it, as it does with a client that was too slow for it: with so many
pods at once on so few cores any client is. The connection stays open then, only the answer ends."""
import contextlib
import http.client
import json
import sys

SECONDS = 86400  # without a word the server ends a watch after minutes, as it thinks fit


def events(plane, path, query=""):
    """Every event from now on, until the server itself ends. What happened between two watches comes with the next."""
    version = plane.request("GET", f"{path}?{query}")["metadata"]["resourceVersion"]
    return follow(plane, f"{path}?watch=1&timeoutSeconds={SECONDS}&{query}", version)


def follow(plane, path, version):
    with contextlib.suppress(ConnectionError):
        while True:
            for event in one_watch(plane, f"{path}&resourceVersion={version}"):
                version = event["object"]["metadata"]["resourceVersion"]
                yield event
            print(f"  the server ended a watch at {version}; the next goes on from there", file=sys.stderr)


def one_watch(plane, path):
    with contextlib.closing(http.client.HTTPSConnection(plane.address, 6443, context=plane.tls)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        while line := answer.readline():
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise RuntimeError(f"watch of {path}: {event['object']}")
            yield event
