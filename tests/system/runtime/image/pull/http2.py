# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: one connection for a pull, streams that break off, stand still or are refused, and readers that do."""
import os
import pathlib
import signal
import subprocess
import time

from h2_registry import H2Registry, Relay
from hosts import certificate, hosts_toml
from kills import children
from registry import MadeImage, answers, digest_of, layer_of
from suite import check, equal

IMAGE = MadeImage([layer_of({"a": os.urandom(size)}) for size in (300000, 150000, 150000)])  # what is left of the small is not kept
FIRST = digest_of(IMAGE.layers[0])
REFUSED, CANCEL, INTERNAL = 7, 8, 2


def identity(world):
    """A server's certificate and key, and its authority."""
    folder = world.folder()
    certificate(folder, "ca")
    return certificate(folder, "server", authority="ca"), folder / "ca.crt"


def hosts_of(world, name, authority):
    directory = world.folder()
    (hosts_toml(directory, name, f'server = "https://{name}"\nca = "ca.crt"\n') / "ca.crt").write_bytes(authority.read_bytes())
    return directory


def pull_of(world, script, *flags, image=IMAGE, streams=100):
    pair, authority = identity(world)
    registry = H2Registry(pair, {"app:1": image}, script, streams)
    pulled = world.pull(f"{registry.name}/app:1", None, hosts_of(world, registry.name, authority), *flags)
    registry.stop()
    return pulled, registry


def on_first(answer):
    """A script that has `answer(stream, data)` answer for the first layer."""
    def script(stream):
        if FIRST not in stream.path:
            return False
        answer(stream, IMAGE.layers[0])
        return True
    return script


def tls_registry(world):
    pair, authority = identity(world)
    registry = world.registry(http={"tls": {"certificate": str(pair[0]), "key": str(pair[1])}})
    return registry, authority


def test_one_connection_carries_a_whole_pull(world):
    registry, authority = tls_registry(world)
    registry.push_made(MadeImage([layer_of({"a": os.urandom(2 << 20)}) for _ in range(8)]), "app:1")
    relay = Relay(registry.port)
    directory = hosts_of(world, relay.name, authority)
    pulled = world.pull(f"{relay.name}/app:1", None, directory).well()
    equal(relay.connections, 1, "connections for manifest, config and eight layers")
    equal(world.pull(f"{relay.name}/app:1", pulled.store, directory).well().id, pulled.id, "asked once more, by HEAD")
    relay.stop()


def test_a_push_to_the_same_server_has_connections_of_its_own_for_uploads(world):
    registry, authority = tls_registry(world)
    image = MadeImage([layer_of({"a": os.urandom(1 << 20)}) for _ in range(3)])
    registry.push_made(image, "app:1")
    directory = hosts_of(world, registry.name, authority)
    pulled = world.pull(f"{registry.name}/app:1", None, directory).well()
    pushed = world.push(pulled, f"{registry.name}/app:1", f"{registry.name}/other:1", hosts=directory).well()
    equal(pushed.digest, f"{registry.name}/other@{image.digest}", "digest")
    equal(world.pull(f"{registry.name}/other:1", None, directory).well().id, pulled.id, "what was pushed")


def test_another_server_with_small_windows_and_few_streams(world):
    """nghttpx before docker-registry: the server's settings are kept to, and three layers come at a time all the same."""
    behind = world.registry()
    behind.push_made(MadeImage([layer_of({"a": os.urandom(2 << 20)}) for _ in range(6)]), "app:1")
    (cert, key), authority = identity(world)
    port = behind.port + 1000
    front = subprocess.Popen(["nghttpx", "--conf=/dev/null", f"--frontend=127.0.0.1,{port}", f"--backend=127.0.0.1,{behind.port}", "--workers=1",
                              "--frontend-http2-max-concurrent-streams=2", "--errorlog-file=/dev/null", str(key), str(cert)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not answers(port):
        equal(front.poll(), None, "nghttpx")
        time.sleep(0.05)
    relay = Relay(port)
    try:
        world.pull(f"{relay.name}/app:1", None, hosts_of(world, relay.name, authority)).well()
    finally:
        front.terminate()
        front.wait()
        relay.stop()
    check(relay.connections <= 2, f"{relay.connections} connections where one has two streams")


def test_a_stream_that_is_reset_goes_on_where_it_ended_and_no_other_notices(world):
    codes = [INTERNAL, CANCEL]

    def breaks(stream, data):
        if not codes:
            return stream.blob(data)
        stream.blob(data, until=stream.range_begin() + 70000)
        return stream.reset(codes.pop())
    pulled, registry = pull_of(world, on_first(breaks))
    pulled.well()
    asked = registry.ranges(FIRST)
    equal([asked[0], len(asked)], [None, 3], f"what was asked: {asked}")
    # A client may drop what it had of a stream, but had not read, when the stream is reset.
    begins = [0] + [int(one.removeprefix("bytes=").removesuffix("-")) for one in asked[1:]]
    for before, begin in zip(begins, begins[1:]):
        check(before < begin <= before + 70000, f"goes on at {begin} where {before} to {before + 70000} were sent")
    for layer in IMAGE.layers[1:]:
        equal(registry.ranges(digest_of(layer)), [None], "the others")
    equal(len(registry.connections), 1, "connections")


def test_resets_without_end_are_given_up(world):
    # Refused streams libcurl itself tries again, a few times.
    pulled, registry = pull_of(world, on_first(lambda stream, _: stream.reset(REFUSED)))
    pulled.failed(FIRST, within=40)
    check(len(registry.ranges(FIRST)) <= 30, f"{len(registry.ranges(FIRST))} tries")
    check(len(registry.connections) <= 30, f"{len(registry.connections)} connections")
    few = on_first(lambda stream, data: (stream.blob(data, until=stream.range_begin() + 10), stream.reset(INTERNAL)))
    pulled, registry = pull_of(world, few)
    pulled.failed(FIRST, within=40)
    check(len(registry.ranges(FIRST)) <= 21, f"{len(registry.ranges(FIRST))} tries")


def test_a_server_that_goes_away_is_asked_on_another_connection(world):
    """As one does that is restarted, or has had enough requests of a connection."""
    gone = []

    def script(stream):
        if "/blobs/" in stream.path and not gone:
            gone.append(stream.number)
            data = IMAGE.blobs[stream.path.rsplit("/", 1)[1]]
            stream.blob(data, until=min(1000, len(data) - 1))
            stream.connection.go_away(stream.number)
            stream.data(data[min(1000, len(data) - 1):], end=True)
            return True
        return False
    pulled, registry = pull_of(world, script)
    pulled.well()
    equal(len(registry.connections), 2, "connections")

    def always(stream, data):
        stream.blob(data, until=stream.range_begin() + 10)
        stream.connection.go_away(stream.number, INTERNAL)
        stream.connection.hang_up()
    pulled, registry = pull_of(world, on_first(always))
    pulled.failed(within=60)
    check(len(registry.connections) <= 60, f"{len(registry.connections)} connections")


def test_a_stream_that_stands_still_is_noticed_while_others_come(world):
    """Another one moves all the while: the connection is as good as it was."""
    asked = []

    def script(stream):
        data = IMAGE.blobs.get(stream.path.rsplit("/", 1)[1])
        if FIRST in stream.path and not asked:
            asked.append(1)
            stream.blob(data, until=100000)
            return True
        if digest_of(IMAGE.layers[1]) not in stream.path:
            return False
        stream.head(200, [("content-length", str(len(data)))])
        for at in range(0, len(data), 3000):
            stream.data(data[at:at + 3000], end=at + 3000 >= len(data))
            time.sleep(0.25)
        return True
    pulled, registry = pull_of(world, script, "--stall", 2)
    pulled.well()
    equal(registry.ranges(FIRST), [None, "bytes=100000-"], "what was asked")
    for layer in IMAGE.layers[1:]:
        equal(registry.ranges(digest_of(layer)), [None], "the others")
    equal(len(registry.connections), 1, "connections")


def test_a_connection_on_which_all_stands_still_is_given_up(world):
    """A path that swallows everything, or a proxy that hangs: new tries are not sent there again."""
    def script(stream):
        if "/blobs/" not in stream.path or stream.connection is not stream.connection.registry.connections[0]:
            return False
        data = IMAGE.blobs[stream.path.rsplit("/", 1)[1]]
        stream.blob(data, until=min(1000, len(data) - 1))
        return True
    pulled, registry = pull_of(world, script, "--stall", 2)
    pulled.well()
    equal(len(registry.connections), 2, "connections")
    check(max(len(registry.ranges(digest)) for digest in IMAGE.blobs) <= 2, f"{registry.requests}")
    check(pulled.seconds < 13, f"{pulled.seconds:.1f} s")


def test_headers_without_end_are_refused(world):
    pulled, registry = pull_of(world, on_first(lambda stream, _: stream.head(
        200, [(f"x-{i}", "y" * 1000) for i in range(60)], end=True)))
    pulled.failed("headers", within=40)
    check(len(registry.requests) < 40, f"{len(registry.requests)} requests")


def processor_time(pid):
    return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def test_an_agent_that_stands_still_holds_up_its_pull_and_no_processor(world):
    """Its pipes fill; the streams wait, cost nothing, and go on."""
    registry, authority = tls_registry(world)
    registry.push_made(MadeImage([layer_of({"a": os.urandom(8 << 20)}) for _ in range(4)], packing=lambda data: data,
                                 media_type="application/vnd.oci.image.layer.v1.tar"), "app:1")
    store = world.folder()
    pull = subprocess.Popen(world.command(f"{registry.name}/app:1", store, hosts_of(world, registry.name, authority)),
                            stdout=subprocess.PIPE, text=True)
    used = 0.0
    try:
        while pull.poll() is None:
            helper = [pid for pid, name in children(pull.pid) if name == "holdfast-fetch"]
            pull.send_signal(signal.SIGSTOP)
            time.sleep(0.15)
            before = processor_time(helper[0]) if helper else 0.0
            time.sleep(0.35)
            used = max(used, processor_time(helper[0]) - before if helper else 0.0)
            pull.send_signal(signal.SIGCONT)
            time.sleep(0.03)
        text = pull.communicate()[0]
    finally:
        pull.kill()
    check(pull.returncode == 0, text)
    check(used < 0.1, f"holdfast-fetch used {used:.2f} s of 0.35")
