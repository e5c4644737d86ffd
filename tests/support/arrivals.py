# SPDX-License-Identifier: Apache-2.0
"""Waiting for a file to appear, without looking again and again (inotify(7))."""
import ctypes
import os
import select

IN_MOVED_TO, IN_CREATE = 0x80, 0x100
LIBC = ctypes.CDLL(None, use_errno=True)


class Arrivals:
    """Of files in one directory, from the making of this object on."""

    def __init__(self, directory):
        self.fd = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or LIBC.inotify_add_watch(self.fd, os.fsencode(directory), IN_MOVED_TO | IN_CREATE) < 0:
            raise OSError(ctypes.get_errno(), f"inotify on {directory}")

    def wait(self, seconds):
        """Until one has come since the last call, or so long."""
        select.select([self.fd], [], [], seconds)
        try:
            while os.read(self.fd, 65536):
                pass
        except BlockingIOError:
            pass

    def close(self):
        os.close(self.fd)
