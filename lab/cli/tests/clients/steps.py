"""What both clients' scripts share: their arguments and checks."""

import json
import sys
import time
import urllib.request

gateway, server, key, limited_key, late = sys.argv[1:]
TINY, SCRIPTED = "meridian-tiny", "scripted"
HELLO = [{"role": "user", "content": "hello"}]


def done(step):
    print("ok", step, flush=True)


def all_streams_ended():
    for _ in range(500):
        if json.load(urllib.request.urlopen(f"{server}/open")) == 0:
            return
        time.sleep(0.02)
    raise AssertionError("a stream goes on")
