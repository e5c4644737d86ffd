# SPDX-License-Identifier: Apache-2.0
"""A real control plane: etcd and kube-apiserver, with controllers and scheduler if asked for, and a client of theirs."""
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import threading
import time

CLIENT_THREADS = 4
IDLE = 30  # seconds after which a connection is made anew; the server ends those that are idle
SERVICE_NAMES = "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"


def at_once(things, act, threads=CLIENT_THREADS):
    """act(thing) for each, several at a time; raises what the first failure raised, after which none is begun."""
    todo = iter(things)
    turn = threading.Lock()
    failures = []

    def work():
        while not failures:
            with turn:
                one = next(todo, None)
            if one is None:
                return
            try:
                act(one)
            except Exception as error:  # raised below
                failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


class Authority:
    """Keys and certificates of a cluster. `folder`: a new one, for them. `address`: the API server's, not loopback."""

    def __init__(self, folder, address, service_range):
        self.folder = pathlib.Path(folder)
        self.address = address
        self.service_range = service_range
        self.make_keys()

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def make_keys(self):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-subj", "/CN=holdfast-test-ca", "-days", "30", "-keyout", "ca.key", "-out", "ca.crt")
        first = self.service_range.split(",")[0].rsplit(".", 1)[0] + ".1"
        self.make_identity("server", "/CN=kube-apiserver",
                           f"IP:{self.address},IP:127.0.0.1,IP:{first},{SERVICE_NAMES}")
        self.make_identity("admin", "/O=system:masters/CN=kubernetes-admin")
        self.make_identity("kubelet-client", "/CN=kube-apiserver-kubelet-client")
        self.make_identity("front-proxy", "/CN=front-proxy-client")
        self.openssl("genrsa", "-out", "sa.key", "2048")
        self.openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")

    def make_identity(self, name, subject, names=None):
        """name.crt and name.key of the cluster's authority."""
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                     "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={names or 'DNS:' + name}\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                     "-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.crt")

    def kubeconfig(self, name="admin", subject=None):
        """Its path; made with a certificate for `subject` if there is none of that name yet."""
        path = self.folder / f"{name}.kubeconfig"
        if not (self.folder / f"{name}.crt").exists():
            self.make_identity(name, subject)
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": f"https://{self.address}:6443",
                "certificate-authority": str(self.folder / "ca.crt")}}],
            "users": [{"name": name, "user": {
                "client-certificate": str(self.folder / f"{name}.crt"),
                "client-key": str(self.folder / f"{name}.key")}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}]}))
        path.chmod(0o600)
        return path


class ControlPlane(Authority):
    """`programs`: {"etcd": path, "kube-apiserver": path, …}. `folder`: a new one, for data, keys and
    logs. `address`: the server's, not loopback, which we can reach. Nobody else there may use their ports.
    `flags`: more of the API server's. `inside`: words before each command, to run it elsewhere.
    `environment`: of the programs, else ours."""

    def __init__(self, programs, folder, address, service_range, flags=(), inside=(),
                 environment=None):
        super().__init__(folder, address, service_range)
        self.programs = programs
        self.inside = inside
        self.environment = environment
        self.processes = []
        self.connections = threading.local()
        self.tls = ssl.create_default_context(cafile=self.folder / "ca.crt")
        self.tls.load_cert_chain(self.folder / "admin.crt", self.folder / "admin.key")
        etcd, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        self.spawn("etcd", [
            f"--data-dir={self.folder}/etcd", f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync"])
        self.spawn("kube-apiserver", [
            f"--etcd-servers={etcd}", "--secure-port=6443",
            f"--advertise-address={address}", f"--service-cluster-ip-range={service_range}",
            f"--tls-cert-file={self.folder}/server.crt",
            f"--tls-private-key-file={self.folder}/server.key",
            f"--client-ca-file={self.folder}/ca.crt", f"--cert-dir={self.folder}",
            f"--kubelet-client-certificate={self.folder}/kubelet-client.crt",
            f"--kubelet-client-key={self.folder}/kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP,Hostname",
            f"--requestheader-client-ca-file={self.folder}/ca.crt",
            "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self.folder}/front-proxy.crt",
            f"--proxy-client-key-file={self.folder}/front-proxy.key",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self.folder}/sa.pub",
            f"--service-account-signing-key-file={self.folder}/sa.key",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--enable-bootstrap-token-auth", *flags])

    def start_controllers(self, pod_range):
        """controller-manager and scheduler; the API server answers already."""
        for name in ("kube-controller-manager", "kube-scheduler"):
            config = self.kubeconfig(name, f"/CN=system:{name}")
            flags = [f"--kubeconfig={config}", f"--authentication-kubeconfig={config}",
                     f"--authorization-kubeconfig={config}", "--leader-elect=false", "--bind-address=127.0.0.1",
                     f"--cert-dir={self.folder}/{name}"]
            if name == "kube-controller-manager":
                flags += [f"--client-ca-file={self.folder}/ca.crt", f"--root-ca-file={self.folder}/ca.crt",
                          f"--service-account-private-key-file={self.folder}/sa.key",
                          f"--cluster-signing-cert-file={self.folder}/ca.crt",
                          f"--cluster-signing-key-file={self.folder}/ca.key",
                          "--use-service-account-credentials", "--controllers=*,bootstrapsigner,tokencleaner",
                          "--allocate-node-cidrs", f"--cluster-cidr={pod_range}",
                          f"--service-cluster-ip-range={self.service_range}"]
            self.spawn(name, flags)

    def spawn(self, name, flags):
        """In a session of its own: a control plane may outlive the command that made it."""
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes.append(subprocess.Popen([*self.inside, self.programs[name], *flags], stdout=log, stderr=log,
                                                   stdin=subprocess.DEVNULL, start_new_session=True,
                                                   env=self.environment))

    def process(self, name):
        return next(p for p in self.processes if p.args[len(self.inside)] == self.programs[name])

    def stop_one(self, name):
        """Kills a program; the flags that it had."""
        one = self.process(name)
        self.processes.remove(one)
        one.kill()
        one.wait()
        return one.args[len(self.inside) + 1:]

    # --- requests; any thread, each has a connection of its own ---

    def request(self, method, path, body=None):
        """The answer's object; RuntimeError when it is none of success."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        status, text = self.exchange(method, path, json.dumps(body) if body else None, kind)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {text[:300]!r}")
        return json.loads(text) if text.startswith(b"{") else text

    def exchange(self, method, path, text, kind):
        """Status and body of the answer to a text as it stands."""
        if time.monotonic() - getattr(self.connections, "used", 0) > IDLE:
            self.connections.one = http.client.HTTPSConnection(self.address, 6443, context=self.tls,
                                                               timeout=30)
        self.connections.one.request(method, path, text, {"Content-Type": kind})
        answer = self.connections.one.getresponse()
        text = answer.read()
        self.connections.used = time.monotonic()
        return answer.status, text

    def create_all(self, objects):
        """POSTs [(path, object)], several at a time."""
        at_once(objects, lambda one: self.request("POST", *one))

    def wait_until_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.request("GET", "/readyz")
                self.request("GET", "/api/v1/namespaces/default")
                return
            except (OSError, RuntimeError, http.client.HTTPException):
                dead = [p.args[0] for p in self.processes if p.poll() is not None]
                if dead or time.monotonic() > deadline:
                    tail = (self.folder / "kube-apiserver.log").read_text()[-6000:]
                    raise RuntimeError(f"no API server (ended: {dead}): {tail}") from None
                time.sleep(0.1)

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
