# SPDX-License-Identifier: Apache-2.0
"""real_api_server.py ETCD KUBE_APISERVER FOLDER ADDRESS: both programs in this network namespace, for
lease_test.cc. Prints the path of a kubeconfig when they can be used; ends with its standard input."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "support"))
from control_plane import ControlPlane  # noqa: E402


def main():
    etcd, apiserver, folder, address = sys.argv[1:]
    pathlib.Path(folder).mkdir()
    plane = ControlPlane({"etcd": etcd, "kube-apiserver": apiserver}, folder, address, "10.96.0.0/16")
    try:
        plane.wait_until_ready()
        while True:
            try:
                plane.request("GET", "/api/v1/namespaces/kube-system")
                break
            except RuntimeError:
                time.sleep(0.1)
        print(plane.kubeconfig(), flush=True)
        sys.stdin.read()
    finally:
        plane.stop()


if __name__ == "__main__":
    main()
