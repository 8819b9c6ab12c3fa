"""A model that calls tools on cue, behind the three APIs that clients speak.

    model.py PORT NAME

It answers a prompt with "All done.", and a request with tools first with a call of one of them: of a
shell if there is one, to run `echo hi-from-the-tool`. A prompt that contains COUNT gets a stream of
numbers without end, one that contains SLOW an answer after 2.5 s, and one that contains DELEGATE is given to a sub-agent, if the client has a tool for
that. `/seen` lists the requests, `/open` counts the streams that are not over.

Random weights do not call tools, so the tests of tools need this one. PORT 0 means any free port.
"""

import itertools
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "All done."
COMMAND = "echo hi-from-the-tool"
SHELLS = ("Bash", "bash", "exec_command", "shell", "shell_command")
USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}

seen, streams, lock = [], [0], threading.Lock()


def shell(name):
    """The arguments of a call of a tool."""
    if name == "exec_command":
        return {"cmd": COMMAND}
    if name in SHELLS:
        return {"command": COMMAND, "description": "greets"}
    return {"city": "Bonn"}


def call_of(tools, text, has_result):
    """The tool that the answer calls, with its arguments and its namespace; none if it is text."""
    if has_result or not tools:
        return None
    # Codex has its agents' tools in a namespace.
    spaces = {t["name"] for t in tools if t.get("type") == "namespace"}
    names = [t.get("name") or t.get("function", {}).get("name") for t in tools]
    if "DELEGATE" in text:
        task = {"description": "greets", "prompt": "Greet.", "message": "Greet."}
        if "Agent" in names:
            return "Agent", {**task, "subagent_type": "general-purpose"}, None
        if "task" in names:
            return "task", {**task, "subagent_type": "general"}, None
        for space in spaces:
            return "spawn_agent", {"message": "Greet.", "task_name": "greets"}, space
    name = next((name for name in names if name in SHELLS), names[0])
    return name, shell(name), None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/v1/models":
            model = {"id": NAME, "object": "model", "created": 0, "owned_by": "tests"}
            return self.whole({"object": "list", "data": [model]})
        if path == "/seen":
            return self.whole(seen)
        if path == "/open":
            return self.whole(streams[0])
        if path == "/health":
            return self.whole({})
        self.whole({"error": {"message": "no such path"}}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.split("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        with lock:
            seen.append({"path": path, "headers": headers, "body": body})
        answers = {
            "/v1/chat/completions": self.chat,
            "/v1/responses": self.respond,
            "/v1/messages": self.message,
        }
        if path == "/v1/messages/count_tokens":
            return self.whole({"input_tokens": 12})
        if path not in answers:
            return self.whole({"error": {"message": "no such path"}}, 404)
        with lock:
            streams[0] += 1
        if "SLOW" in json.dumps(body):
            time.sleep(2.5)
        try:
            answers[path](body)
        except OSError:
            # The client has left.
            self.close_connection = True
        finally:
            with lock:
                streams[0] -= 1

    def whole(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            named = "" if "type" not in event else f"event: {event['type']}\n"
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{named}data: {data}\n\n".encode())
            self.wfile.flush()

    def chat(self, body):
        text = json.dumps(body["messages"])
        result = any(message["role"] == "tool" for message in body["messages"])
        call = call_of(body.get("tools"), text, result)
        head = {"id": "chatcmpl-1", "created": 1, "model": NAME}

        def chunk(delta, reason=None):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return {**head, "object": "chat.completion.chunk", "choices": [choice]}

        if "COUNT" in text and body.get("stream"):
            return self.stream(endless(lambda n: chunk({"content": f"{n} "})))
        message, reason = {"role": "assistant", "content": ANSWER}, "stop"
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            made = {"index": 0, "id": "call_1", "type": "function", "function": function}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [made]}, "tool_calls"
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": USAGE}
            return self.whole(whole)
        usage = {**head, "object": "chat.completion.chunk", "choices": [], "usage": USAGE}
        asked = body.get("stream_options", {}).get("include_usage")
        end = [usage, "[DONE]"] if asked else ["[DONE]"]
        self.stream([chunk(message), chunk({}, reason), *end])

    def respond(self, body):
        text = json.dumps(body["input"])
        items = body["input"] if isinstance(body["input"], list) else []
        result = any(item.get("type", "").endswith("_output") for item in items)
        call = call_of(body.get("tools"), text, result)
        if call:
            item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
            item |= {"name": call[0], "arguments": json.dumps(call[1])}
            item |= {"namespace": call[2]} if call[2] else {}
        else:
            part = {"type": "output_text", "text": ANSWER, "annotations": []}
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
            item |= {"content": [part]}
        details = {"input_tokens_details": {"cached_tokens": 0}}
        details |= {"output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13, **details}
        whole = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed"}
        whole |= {"model": NAME, "output": [item], "usage": usage}
        if not body.get("stream"):
            return self.whole(whole)
        started = {**whole, "status": "in_progress", "output": [], "usage": None}
        delta = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

        def said(piece):
            return {"type": "response.output_text.delta", **delta, "delta": piece}

        start = [
            {"type": "response.created", "response": started},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
        ]
        if "COUNT" in text:
            return self.stream(itertools.chain(start, endless(lambda n: said(f"{n} "))))
        done = [
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        self.stream([*start, *([] if call else [said(ANSWER)]), *done])

    def message(self, body):
        text = json.dumps(body["messages"])
        parts = [part for message in body["messages"] for part in message["content"]]
        result = any(isinstance(part, dict) and part["type"] == "tool_result" for part in parts)
        call = call_of(body.get("tools"), text, result)
        block, reason = {"type": "text", "text": ANSWER}, "end_turn"
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": ANSWER}
        if call:
            block = {"type": "tool_use", "id": "toolu_1", "name": call[0], "input": call[1]}
            start, reason = {**block, "input": {}}, "tool_use"
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        usage = {"input_tokens": 10, "output_tokens": 3}
        whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": NAME}
        whole |= {"content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return self.whole(whole)

        def piece(delta):
            return {"type": "content_block_delta", "index": 0, "delta": delta}

        head = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": start},
        ]
        if "COUNT" in text:
            count = endless(lambda n: piece({"type": "text_delta", "text": f"{n} "}))
            return self.stream(itertools.chain(head, count))
        why = {"stop_reason": reason, "stop_sequence": None}
        end = [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": why, "usage": usage},
            {"type": "message_stop"},
        ]
        self.stream([*head, piece(delta), *end])


def endless(event):
    """Events until the client leaves."""
    n = 0
    while True:
        yield event(n)
        n += 1
        time.sleep(0.02)


class Server(ThreadingHTTPServer):
    daemon_threads = True


NAME = sys.argv[2]
server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
