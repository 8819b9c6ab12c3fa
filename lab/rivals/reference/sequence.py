"""The sequence of requests that every system answers, from a seed.

Prints one event a line: `A ID SESSION SEGMENT:BYTES ...` is an arrival, `E ID` the end of its
answer. A prompt is the text of its segments in a row, and a segment's text follows from its number
(`text`), so the file says all there is to say. Nothing in it was written by a user.

What it mixes: conversations that grow turn by turn under shared system prompts, trees of branches
under one document, prompts that share nothing, and phases of load from one request at a time to
more than a hundred outstanding on one document, so that every branch of the rules is taken.

    python3 sequence.py [SEED] > sequence.txt
"""

import random
import sys

MASK = (1 << 64) - 1
SEED = 1
LETTERS = "abcdefghijklmnopqrstuvwxyz012345"


def text(segment, size):
    """The first `size` letters of a segment: SplitMix64 from its number, five bits a letter."""
    state, letters = segment, []
    while len(letters) < size:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        letters += [LETTERS[(z >> (5 * i)) & 31] for i in range(12)]
    return "".join(letters[:size])


def prompt(segments):
    return "".join(text(segment, size) for segment, size in segments)


def tokens(prompt):
    """Tokens of a prompt: the numbers that four letters each make; a rest has none."""
    numbers = [LETTERS.index(letter) for letter in prompt]
    fours = [numbers[i : i + 4] for i in range(0, len(numbers) - 3, 4)]
    return [sum(number << (5 * i) for i, number in enumerate(four)) for four in fours]


def read(lines):
    """The events of a sequence: ("A", id, session, segments) and ("E", id)."""
    for line in lines:
        kind, *rest = line.split()
        if kind == "A":
            parts = [tuple(map(int, part.split(":"))) for part in rest[2:]]
            yield "A", int(rest[0]), int(rest[1]), parts
        elif kind == "E":
            yield "E", int(rest[0])


class Source:
    """Where prompts come from."""

    def __init__(self, rng):
        self.rng = rng
        self.segments = 0
        self.sessions = []
        self.count = 0
        self.systems = [self.segment(rng.choice([150, 400, 900, 1600, 3000])) for _ in range(8)]

    def segment(self, size):
        self.segments += 1
        # Far apart, so that no two segments draw the same letters.
        return (self.segments * 1_000_003, size)

    def size(self, low, high):
        return int(low * (high / low) ** self.rng.random())

    def new_session(self):
        self.count += 1
        return self.count

    def chat(self):
        """The next turn of a conversation, or the first of a new one."""
        rng = self.rng
        if len(self.sessions) < 12 or rng.random() < 0.25:
            system = self.systems[min(int(rng.expovariate(0.6)), 7)]
            self.sessions.append([self.new_session(), [system]])
            self.sessions = self.sessions[-30:]
        session = rng.choice(self.sessions)
        session[1].append(self.segment(self.size(40, 900)))
        asked = list(session[1])
        session[1].append(self.segment(self.size(60, 1200)))
        if len(session[1]) > 24:
            self.sessions.remove(session)
        return session[0], asked

    def tree(self):
        """A document with three branches of three branches, level by level."""
        session = self.new_session()
        root = [self.segment(self.size(300, 4000))]
        level, out = [root], [(session, root)]
        for _ in range(2):
            level = [path + [self.segment(self.size(80, 1500))] for path in level for _ in range(3)]
            out += [(session, path) for path in level]
        return out

    def single(self):
        return self.new_session(), [self.segment(self.size(20, 3000))]

    def shared(self, document):
        return self.new_session(), [document, self.segment(self.size(30, 600))]


def events(seed, arrivals=1500):
    rng = random.Random(seed)
    source = Source(rng)
    out, open_, queue, sent = [], [], [], 0

    def arrive(session, segments):
        nonlocal sent
        out.append(("A", sent, session, segments))
        open_.append(sent)
        sent += 1

    def end():
        out.append(("E", open_.pop(rng.randrange(len(open_)))))

    # Five that share nothing, together: they show in which order a router lists its replicas.
    for _ in range(5):
        arrive(*source.single())
    while open_:
        end()
    while sent < arrivals:
        # A phase: the number of outstanding requests, and their prompts.
        target = rng.choice([1, 4, 10, 25, 60])
        hot = source.segment(source.size(1000, 6000)) if rng.random() < 0.2 else None
        if hot:
            target = rng.choice([40, 110, 150])
        for _ in range(rng.randrange(40, 90) + (target if hot else 0)):
            while open_ and rng.random() < len(open_) / (target * 2):
                end()
            if not queue:
                kind = rng.random()
                if hot and kind < 0.9:
                    queue.append(source.shared(hot))
                elif kind < 0.6:
                    queue.append(source.chat())
                elif kind < 0.75:
                    queue += source.tree()
                else:
                    queue.append(source.single())
            if sent < arrivals:
                arrive(*queue.pop(0))
    while open_:
        end()
    return out


def lines(seed):
    for event in events(seed):
        if event[0] == "A":
            parts = " ".join(f"{segment}:{size}" for segment, size in event[3])
            yield f"A {event[1]} {event[2]} {parts}"
        else:
            yield f"E {event[1]}"


if __name__ == "__main__":
    print("\n".join(lines(int(sys.argv[1]) if len(sys.argv) > 1 else SEED)))
