"""Asks Dynamo's selection service, request by request, which replica it would take.

`python -m dynamo.select_service` is the scheduler of Dynamo's KV router without the proxy around
it. It answers over HTTP, counts its choices as load, and gets a message at the end of a request's
prefill and of the request. Without KV events, it assumes that a replica caches a prompt for 120 s.
A prompt's tokens are its letters by four, in blocks of 16 tokens. A request's first token comes when
three more have arrived, or with its end; the replay does the same.

    python3 record_dynamo.py < sequence.txt    # prints the choices; the environment is in $BIN
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile

import sequence
from record import FIRST_PORT, LIMIT, REPLICAS, http

PORT = FIRST_PORT + 90
FIRST_TOKEN_AFTER = 3


async def must(method, path, body=None):
    status, answer = await http(PORT, method, path, body)
    if status >= 300:
        sys.exit(f"dynamo: {method} {path} was answered {status}: {answer.decode()}")
    return json.loads(answer) if answer else None


async def ready():
    for _ in range(LIMIT * 20):
        try:
            return await must("GET", "/health")
        except (ConnectionError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.05)
    sys.exit("dynamo: the service is not ready")


async def replay(events):
    for replica in range(REPLICAS):
        worker = {"worker_id": replica, "endpoint": f"http://127.0.0.1:{FIRST_PORT + replica}"}
        await must("POST", "/workers", {**worker, "block_size": 16})
    choices, waiting = [], []
    for event in events:
        if event[0] == "E":
            waiting = [number for number in waiting if number != event[1]]
            await must("DELETE", f"/reservations/{event[1]}")
            continue
        _, number, _, segments = event
        tokens = sequence.tokens(sequence.prompt(segments))
        body = {"selection_id": str(number), "token_ids": tokens}
        choices.append((await must("POST", "/select_and_reserve", body))["worker_id"])
        waiting.append(number)
        if len(waiting) > FIRST_TOKEN_AFTER:
            await must("POST", f"/reservations/{waiting.pop(0)}/prefill_complete")
    return choices


async def main():
    events = list(sequence.read(sys.stdin))
    command = [os.path.join(os.environ["BIN"], "python"), "-m", "dynamo.select_service"]
    environment = {**os.environ, "DYN_ROUTER_USE_KV_EVENTS": "false", "DYN_LOG": "error"}
    with tempfile.TemporaryFile() as log:
        service = subprocess.Popen(
            [*command, "--port", str(PORT)], stdout=log, stderr=log, env=environment
        )
        try:
            await ready()
            choices = await replay(events)
        finally:
            service.terminate()
            service.wait(10)
    print("dynamo kv")
    digits = "".join(map(str, choices))
    print("\n".join(digits[i : i + 100] for i in range(0, len(digits), 100)))


if __name__ == "__main__":
    asyncio.run(main())
