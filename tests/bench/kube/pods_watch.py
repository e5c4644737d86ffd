# SPDX-License-Identifier: Apache-2.0
"""When a watch of the API server first showed what, of the pods of one namespace."""
import threading
import time

import watch


class PodsWatch:
    """Moments by time.monotonic(). A name is used once."""

    def __init__(self, plane, namespace):
        self.events = watch.events(plane, f"/api/v1/namespaces/{namespace}/pods")
        self.seen = {}  # (name, "Running" or "gone") -> moment
        self.changed = threading.Condition()
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for event in self.events:
            now = time.monotonic()
            pod = event["object"]
            name = pod["metadata"]["name"]
            with self.changed:
                if event["type"] == "DELETED":
                    self.seen.setdefault((name, "gone"), now)
                elif pod["status"].get("phase") == "Running":
                    self.seen.setdefault((name, "Running"), now)
                self.changed.notify_all()

    def wait(self, names, what, seconds=300):
        """The moment at which the last of them was."""
        keys = [(name, what) for name in names]
        with self.changed:
            if not self.changed.wait_for(lambda: all(key in self.seen for key in keys), seconds):
                missing = [name for name, _ in keys if (name, what) not in self.seen]
                raise TimeoutError(f"{len(missing)} of {len(names)} pods are not {what} within {seconds} s: {missing[:3]}")
            return max(self.seen[key] for key in keys)
