"""Asks a real router, request by request, which replica it would take, and writes the choices down.

The router is a real process and the requests are real HTTP. Behind it stand replicas that answer on
command: the driver sends a request, waits until a replica has it (that is the choice), and the
script of `sequence.py` says when its answer is given. Before every request the router itself is
asked for its loads (`GET /workers`), and they must be what the script says: so every choice was made
with known loads. Addresses are loopback, one request is decided at a time, and the run ends itself.

    python3 record.py ROUTER POLICY [FLAG ...] < sequence.txt    # prints the choices
    ROUTER: sglang-router, smg or vllm-router, found in $BIN (a folder of programs)
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile

import sequence

REPLICAS = 5
# Fixed, because hashing policies hash the URL.
FIRST_PORT = 21500
LIMIT = 20


class Replicas:
    """Engines that hold every answer until the recorder releases it."""

    def __init__(self):
        self.arrived = asyncio.Queue()

    async def start(self):
        for replica in range(REPLICAS):
            serve = lambda r, w, replica=replica: self.serve(replica, r, w)
            await asyncio.start_server(serve, "127.0.0.1", FIRST_PORT + replica)

    async def serve(self, replica, reader, writer):
        try:
            while True:
                method, path, body = await read_request(reader)
                if path == "/v1/completions":
                    answer = asyncio.get_running_loop().create_future()
                    await self.arrived.put((replica, json.loads(body), answer))
                    await answer
                    write(writer, 200, COMPLETION)
                elif path.startswith(("/health", "/v1/models")):
                    write(writer, 200, MODELS)
                elif path in ("/server_info", "/get_server_info", "/model_info", "/get_model_info"):
                    write(writer, 200, {"model_path": "m", "model_id": "m", "served_model_name": "m"})
                elif path == "/v1/completions/render":
                    # vllm-router matches the tokens that an engine makes of a prompt.
                    tokens = sequence.tokens(json.loads(body)["prompt"])
                    rendered = {"request_id": "r", "model": "m", "sampling_params": {}}
                    write(writer, 200, [{**rendered, "token_ids": tokens}])
                else:
                    # Reports no load: the routers must count on their own.
                    write(writer, 404, {})
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ValueError):
            # The peer has closed, the run is over, or a client probed for gRPC.
            writer.close()


MODELS = {"object": "list", "data": [{"id": "m", "object": "model"}]}
COMPLETION = {
    "id": "c", "object": "text_completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "text": "x", "logprobs": None, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def write(writer, status, body):
    body = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    writer.write(head.encode() + b"\r\n\r\n" + body)


async def read_request(reader):
    """Method, path and body of a request."""
    line, body = await read_message(reader)
    method, path, _ = line.split(" ")
    return method, path, body


async def read_message(reader):
    """First line and body of a request or an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.split("\r\n")
    fields = dict(f.lower().split(": ", 1) for f in fields if ": " in f)
    if fields.get("transfer-encoding") != "chunked":
        return line, await reader.readexactly(int(fields.get("content-length", 0)))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return line, body


async def http(port, method, path, body=None, headers=()):
    """A request of our own; its status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close",
            "content-type: application/json", f"content-length: {len(body)}", *headers]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    line, body = await read_message(reader)
    writer.close()
    return int(line.split(" ")[1]), body


class Router:
    """A router's process."""

    def __init__(self, name, policy, flags):
        self.name, self.port = name, FIRST_PORT + 50
        # smg counts requests in flight always, the others where a policy goes by them, except
        # that sglang-router compares zeros with zeros in power_of_two.
        counted = {"sglang-router": ["cache_aware"], "vllm-router": ["cache_aware", "power_of_two"]}
        self.counts = policy in counted.get(name, [policy])
        # A session's name would be taken for the prompt by vllm-router's cache_aware.
        self.keyed = "hash" in policy
        program = os.path.join(os.environ["BIN"], name)
        command = [program] + ([] if name == "vllm-router" else ["launch"])
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--policy", policy]
        command += ["--prometheus-port", str(self.port + 1)]
        command += ["--worker-urls", *map(url, range(REPLICAS))]
        command += ["--disable-retries", "--disable-circuit-breaker", "--log-level", "error"]
        command += ["--request-timeout-secs", "600", *flags]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    async def ready(self):
        """Waits until every replica is listed as healthy."""
        for _ in range(LIMIT * 20):
            if self.process.poll() is not None:
                self.fail("the router ended")
            try:
                if len(await self.loads()) == REPLICAS:
                    return
            except (ConnectionError, asyncio.IncompleteReadError, KeyError, ValueError):
                pass
            await asyncio.sleep(0.05)
        self.fail("the router is not ready")

    async def loads(self):
        """Requests in flight at each healthy replica, as the router counts them."""
        _, body = await http(self.port, "GET", "/workers")
        workers = json.loads(body)["workers"]
        return {w["url"]: w["load"] for w in workers if w["is_healthy"]}

    def fail(self, why):
        self.log.seek(0)
        sys.exit(f"{self.name}: {why}; its output ends: {self.log.read()[-2000:].decode()}")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def url(replica):
    return f"http://127.0.0.1:{FIRST_PORT + replica}"


async def replay(router, replicas, events):
    """Plays the sequence; the replica of each request."""
    choices, open_, want = [], {}, [0] * REPLICAS
    for event in events:
        if event[0] == "E":
            replica, answer, client = open_.pop(event[1])
            answer.set_result(None)
            status, _ = await asyncio.wait_for(client, LIMIT)
            if status != 200:
                router.fail(f"request {event[1]} was answered {status}")
            want[replica] -= 1
            continue
        await settle(router, want)
        _, number, session, segments = event
        prompt = sequence.prompt(segments)
        body = {"model": "m", "prompt": prompt, "max_tokens": 1}
        key = (f"x-session-id: s{session}", f"x-smg-routing-key: s{session}") if router.keyed else ()
        client = asyncio.create_task(http(router.port, "POST", "/v1/completions", body, key))
        replica, got, answer = await asyncio.wait_for(replicas.arrived.get(), LIMIT)
        if got["prompt"] != prompt:
            router.fail(f"replica {replica} got another prompt than request {number}'s")
        open_[number] = (replica, answer, client)
        want[replica] += 1
        choices.append(replica)
    return choices


def renumbered(choices):
    """The choices with replicas numbered as the router lists them, where that shows.

    The routers list their workers in an order of their own, and break ties by it. The sequence
    begins with one request for each replica that shares nothing with the others, all outstanding
    together: a rule that goes by load or by turn takes the replicas in the order of its list.
    """
    first = choices[:REPLICAS]
    return [first.index(c) for c in choices] if len(set(first)) == REPLICAS else choices


async def settle(router, want):
    """Waits until the router's own counts of requests in flight are the script's."""
    if not router.counts:
        want = [0] * REPLICAS
    for _ in range(400):
        loads = await router.loads()
        if [loads.get(url(replica)) for replica in range(REPLICAS)] == want:
            return
        await asyncio.sleep(0.005)
    router.fail(f"its loads are {loads}, not {want}")


async def main():
    name, policy, *flags = sys.argv[1:]
    events = list(sequence.read(sys.stdin))
    replicas = Replicas()
    await replicas.start()
    router = Router(name, policy, flags)
    try:
        await router.ready()
        choices = await replay(router, replicas, events)
    finally:
        router.end()
    print(" ".join([name, policy, *flags]))
    digits = "".join(map(str, renumbered(choices)))
    print("\n".join(digits[i : i + 100] for i in range(0, len(digits), 100)))


if __name__ == "__main__":
    asyncio.run(main())
