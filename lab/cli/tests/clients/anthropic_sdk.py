"""Anthropic's client for Python against a gateway: prints the name of each step that went well.

    anthropic_sdk.py GATEWAY MODEL_SERVER KEY LIMITED_KEY LATE
"""

import anthropic
from anthropic import Anthropic
from steps import HELLO, SCRIPTED, TINY, all_streams_ended, done, gateway, key, late, limited_key

client = Anthropic(base_url=gateway, api_key=key, max_retries=0)
# The client has no parameter for it.
GREEDY = {"temperature": 0}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def raised(status, call):
    """The error of a call, which must be of the type for this status."""
    try:
        call()
    except anthropic.APIStatusError as error:
        assert error.status_code == status, repr(error)
        assert error.response.headers["x-meridian-refused"], error.response.headers
        return error
    raise AssertionError("no error")


def create(by=client, **changed):
    return by.messages.create(**{"model": TINY, "messages": HELLO, "max_tokens": 5, **changed})


answer = create(extra_body=GREEDY)
assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 5, answer
text = answer.content[0].text
done("message")

asked = {"model": TINY, "messages": HELLO, "max_tokens": 5, "extra_body": GREEDY}
with client.messages.stream(**asked) as stream:
    assert "".join(stream.text_stream) == text
    last = stream.get_final_message()
assert last.stop_reason == "max_tokens" and last.usage.output_tokens == 5, last
done("message stream")

counted = client.messages.count_tokens(model=TINY, messages=HELLO)
usage = answer.usage
assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0), (counted, usage)
done("count tokens")

tools = [{"name": "weather", "input_schema": SCHEMA}]
with client.messages.stream(model=SCRIPTED, messages=HELLO, tools=tools, max_tokens=50) as stream:
    streamed = stream.get_final_message()
for message in (streamed, create(model=SCRIPTED, tools=tools)):
    call = message.content[0]
    assert (message.stop_reason, call.input) == ("tool_use", {"city": "Bonn"}), message
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
    said = {"role": "assistant", "content": message.content}
    messages = [*HELLO, said, {"role": "user", "content": [result]}]
    last = create(model=SCRIPTED, messages=messages, tools=tools)
    assert last.content[0].text == "All done.", last
done("tools")

# The replica of this model starts after the first 503.
error = raised(503, lambda: create(model=late))
assert isinstance(error, anthropic.InternalServerError) and error.response.headers["retry-after"]
assert create(client.with_options(max_retries=30), model=late).content[0].text == "All done."
done("retries on 503")

# Comments come in the silence before the first token, then the answer; or an error, if no replica does.
slow = {"model": SCRIPTED, "messages": [{"role": "user", "content": "SLOW"}], "max_tokens": 50}
with client.messages.stream(**slow) as stream:
    assert "".join(stream.text_stream) == "All done."
try:
    list(create(model="zero", stream=True))
    raise AssertionError("no error")
except anthropic.APIError as error:
    assert "no replica of the requested model came within 3 s" in str(error), repr(error)
done("comments")

error = raised(404, lambda: create(model="none"))
assert type(error) is anthropic.NotFoundError and error.type == "not_found_error", repr(error)
assert error.request_id, "support needs the id"
error = raised(400, lambda: create(messages="hello"))
assert type(error) is anthropic.BadRequestError and error.type == "invalid_request_error", repr(error)
stranger = Anthropic(base_url=gateway, api_key="unknown", max_retries=0)
error = raised(401, lambda: create(stranger))
assert type(error) is anthropic.AuthenticationError and error.type == "authentication_error", repr(error)
error = raised(404, client.messages.batches.list)
assert type(error) is anthropic.NotFoundError and "one by one" in str(error), repr(error)
done("errors")

limited = Anthropic(base_url=gateway, api_key=limited_key, max_retries=0)
error = None
for _ in range(100):
    try:
        create(limited, model=SCRIPTED)
    except anthropic.RateLimitError as limit:
        error = limit
        break
assert error and error.type == "rate_limit_error" and error.response.headers["retry-after"], error
# With the client's own retries, the same request waits as long as the gateway says.
patient = limited.with_options(max_retries=5)
asked = {"model": SCRIPTED, "messages": HELLO, "max_tokens": 5}
raw = patient.messages.with_raw_response.create(**asked)
assert raw.retries_taken > 0 and raw.parse().content[0].text == "All done."
done("retries on 429")

count = [{"role": "user", "content": "COUNT"}]
with client.messages.create(model=SCRIPTED, messages=count, max_tokens=50, stream=True) as stream:
    for number, _ in zip(range(5), stream):
        pass
all_streams_ended()
done("cancelled stream")
