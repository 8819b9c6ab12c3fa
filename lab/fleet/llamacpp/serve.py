"""Serves a GGUF file with llama.cpp's own HTTP server, embedded in this process by xllamacpp.

    serve.py MODEL PORT SLOTS CONTEXT [--alias NAME] [--until-stdin-closes]

PORT 0 means any free port. CONTEXT is the number of tokens of one slot. NAME is the model's
name in the API, `meridian-tiny` by default. Once the server answers,
one line goes to stdout: `listening on http://127.0.0.1:PORT`. SIGTERM and SIGINT end it.

The prefix cache is llama.cpp's own: each slot keeps the tokens that it served last, and what a
slot gives up is kept in host memory, here in less of it than llama.cpp's default of 8 GiB.

A starter that dies without a word (SIGKILL) must not leave servers behind. With
`--until-stdin-closes` the process ends with the pipe on its stdin, which the kernel closes
however the starter ended. (PDEATHSIG would fire when the starting *thread* ends, and a starter
with a thread pool ends threads at will.)
"""

import argparse
import os
import signal
import sys
import threading

import xllamacpp


def parameters(args):
    """llama.cpp's own parameters, for a server that shares a small machine with others."""
    p = xllamacpp.CommonParams()
    p.model.path = args.model
    p.model_alias = {args.alias}
    p.hostnames = ["127.0.0.1"]
    p.port = args.port
    p.n_parallel = args.slots
    p.n_ctx = args.slots * args.context
    # One region of KV for each slot: a long prompt in one slot never evicts another's.
    p.kv_unified = False
    p.cache_ram_mib = 256
    p.n_ctx_checkpoints = 0
    p.ctx_shift = False
    p.endpoint_metrics = True
    p.endpoint_slots = True
    p.warmup = False
    # Prefill in small batches, so that streams of other slots continue between them.
    p.n_batch = 512
    p.n_ubatch = 256
    p.cpuparams.n_threads = 1
    p.cpuparams_batch.n_threads = 1
    p.n_threads_http = args.slots + 4
    return p


def end_with_stdin():
    """Waits until stdin is closed, then ends the process at once."""
    while sys.stdin.buffer.read1(4096):
        pass
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("port", type=int)
    parser.add_argument("slots", type=int)
    parser.add_argument("context", type=int)
    parser.add_argument("--alias", default="meridian-tiny")
    parser.add_argument("--until-stdin-closes", action="store_true")
    args = parser.parse_args()

    # Blocked before any thread starts, so that llama.cpp's threads leave the signals to sigwait.
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    if args.until_stdin_closes:
        threading.Thread(target=end_with_stdin, daemon=True).start()
    server = xllamacpp.Server(parameters(args))
    print(f"listening on {server.listening_address}", flush=True)
    signal.sigwait(signals)
    # llama.cpp's teardown waits for open streams; the sender of the signal has drained them.
    os._exit(0)


if __name__ == "__main__":
    main()
