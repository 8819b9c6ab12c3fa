"""Records what the real routers choose, all of it, from nothing but Python and the package index.

Installs each router at its pinned version (`versions.env`) into an environment of its own under
.venv/reference, plays the sequence to each of its policies, and writes one file a router. Takes
about three minutes and 600 MB; nothing needs a GPU.

    python3 lab/rivals/reference/record_all.py OUT_DIR [ROUTER ...]    # from the repository's root
"""

import os
import shlex
import subprocess
import sys
import venv

import sequence

HERE = os.path.dirname(os.path.abspath(__file__))
# Thresholds that ordinary load exceeds, so that both sides of each are taken.
TIGHT = "cache_aware --cache-threshold 0.5 --balance-abs-threshold 8 --balance-rel-threshold 1.1"
POLICIES = {
    "sglang-router": ["cache_aware", TIGHT, "round_robin", "power_of_two"],
    "smg": ["cache_aware", TIGHT, "round_robin", "power_of_two", "least_load", "consistent_hashing"],
    "vllm-router": ["cache_aware", TIGHT, "round_robin", "power_of_two", "consistent_hash"],
    "dynamo": ["kv"],
}


def versions():
    """What versions.env says."""
    with open("versions.env") as file:
        pairs = [line.strip().split("=", 1) for line in file if "=" in line and line[0] != "#"]
    return {key: shlex.split(value)[0].split() for key, value in pairs}


def installed(router, pinned):
    """The folder of programs of a router's environment, made where it is missing."""
    home = os.path.join(".venv", "reference", router)
    packages = pinned[f"REFERENCE_{router.upper().replace('-', '_')}_PIP"]
    alone = pinned["REFERENCE_DYNAMO_ALONE_PIP"] if router == "dynamo" else []
    mark = os.path.join(home, "installed")
    wanted = " ".join(packages + alone)
    if not os.path.exists(mark) or open(mark).read() != wanted:
        print(f"installing {router} into {home}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        pip = [os.path.join(home, "bin", "pip"), "install", "--quiet"]
        subprocess.run([*pip, *packages], check=True)
        if alone:
            # They ask for packages that cannot be installed or are not used here.
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        with open(mark, "w") as file:
            file.write(wanted)
    return os.path.join(home, "bin")


def record(router, policy, programs, events):
    """One recording: a title and its choices."""
    script = "record_dynamo.py" if router == "dynamo" else "record.py"
    arguments = [] if router == "dynamo" else [router, *policy.split()]
    command = [sys.executable, os.path.join(HERE, script), *arguments]
    environment = {**os.environ, "BIN": programs}
    print(f"recording {router} {policy}", file=sys.stderr)
    done = subprocess.run(
        command, input=events, env=environment, stdout=subprocess.PIPE, text=True, timeout=300
    )
    if done.returncode != 0:
        sys.exit(f"{router} {policy} could not be recorded, see above")
    return done.stdout


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, routers = sys.argv[1], sys.argv[2:] or list(POLICIES)
    os.makedirs(out, exist_ok=True)
    events = "".join(line + "\n" for line in sequence.lines(sequence.SEED))
    with open(os.path.join(out, "sequence.txt"), "w") as file:
        file.write(events)
    pinned = versions()
    for router in routers:
        programs = installed(router, pinned)
        texts = [record(router, policy, programs, events) for policy in POLICIES[router]]
        with open(os.path.join(out, f"{router}.txt"), "w") as file:
            file.write("\n".join(texts))


if __name__ == "__main__":
    main()
