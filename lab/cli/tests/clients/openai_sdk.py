"""OpenAI's client for Python against a gateway: prints the name of each step that went well.

    openai_sdk.py GATEWAY MODEL_SERVER KEY LIMITED_KEY LATE
"""

import json
import random

import openai
from openai import OpenAI
from steps import HELLO, SCRIPTED, TINY, all_streams_ended, done, gateway, key, late, limited_key

client = OpenAI(base_url=f"{gateway}/v1", api_key=key, max_retries=0)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def raised(kind, call):
    """The error of a call, which must be of this type."""
    try:
        call()
    except kind as error:
        assert type(error) is kind, repr(error)
        return error
    raise AssertionError(f"no {kind.__name__}")


assert {TINY, SCRIPTED} <= {model.id for model in client.models.list()}
assert client.models.retrieve(TINY).id == TINY
done("models")

answer = client.chat.completions.create(model=TINY, messages=HELLO, max_tokens=5, temperature=0)
assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 5
text = answer.choices[0].message.content
done("chat")

pieces, usage = [], None
asked = {"model": TINY, "messages": HELLO, "max_tokens": 5, "temperature": 0, "stream": True}
for chunk in client.chat.completions.create(**asked, stream_options={"include_usage": True}):
    pieces += [choice.delta.content or "" for choice in chunk.choices]
    usage = chunk.usage or usage
assert "".join(pieces) == text and usage.completion_tokens == 5, (pieces, text, usage)
# The gateway asks for usage that the client did not ask for, and keeps it to itself.
assert all(chunk.usage is None for chunk in client.chat.completions.create(**asked))
done("chat stream")

# The second request with the same tokens finds them in the cache.
tokens = random.choices(range(40, 340), k=300)
for known in (False, True):
    raw = client.completions.with_raw_response.create(model=TINY, prompt=tokens, max_tokens=2)
    cached = raw.parse().usage.prompt_tokens_details.cached_tokens
    assert (cached > 250) == known, cached
    assert (float(raw.headers["x-meridian-prefix-match"]) > 0.8) == known, raw.headers
done("token ids")

response = client.responses.create(model=TINY, input="hello", max_output_tokens=5)
assert response.output_text and response.usage.output_tokens == 5
kinds = [event.type for event in client.responses.create(model=TINY, input="hello", stream=True,
                                                         max_output_tokens=5)]
assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
counted = client.responses.input_tokens.count(model=TINY, input="hello")
assert counted.input_tokens == response.usage.input_tokens
done("responses")

tools = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
with client.chat.completions.stream(model=SCRIPTED, messages=HELLO, tools=tools) as run:
    streamed = run.get_final_completion().choices[0].message
whole = client.chat.completions.create(model=SCRIPTED, messages=HELLO, tools=tools)
for message in (streamed, whole.choices[0].message):
    call = message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Bonn"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    messages = [*HELLO, message, result]
    last = client.chat.completions.create(model=SCRIPTED, messages=messages, tools=tools)
    assert last.choices[0].message.content == "All done."
tools = [{"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}]
first = client.responses.create(model=SCRIPTED, input=HELLO, tools=tools)
call = first.output[0]
result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
last = client.responses.create(model=SCRIPTED, input=[*HELLO, call, result], tools=tools)
assert json.loads(call.arguments) == {"city": "Bonn"} and last.output_text == "All done."
done("tools")


def chat(**changed):
    return client.chat.completions.create(**{"model": TINY, "messages": HELLO, **changed})


# The replica of this model starts after the first 503.
error = raised(openai.InternalServerError, lambda: chat(model=late))
assert error.status_code == 503 and error.response.headers["retry-after"], error
raw = client.with_options(max_retries=30).chat.completions.with_raw_response.create(
    model=late, messages=HELLO)
assert raw.parse().choices[0].message.content == "All done."
done("retries on 503")

# Comments come in the silence before the first token, then the answer; or an error, if no replica does.
slow = chat(model=SCRIPTED, messages=[{"role": "user", "content": "SLOW"}], stream=True)
said = [choice.delta.content or "" for chunk in slow for choice in chunk.choices]
assert "".join(said) == "All done.", said
assert "zero" in {model.id for model in client.models.list()}
error = raised(openai.APIError, lambda: list(chat(model="zero", stream=True)))
assert "no replica of the requested model came within 3 s" in error.message, error
done("comments")

error = raised(openai.NotFoundError, lambda: chat(model="none"))
assert (error.code, error.type) == ("model_not_found", "invalid_request_error"), error
assert error.request_id, "support needs the id"
error = raised(openai.BadRequestError, lambda: chat(messages="hello"))
assert error.code == "invalid_request" and error.param == "messages", error
stranger = OpenAI(base_url=f"{gateway}/v1", api_key="unknown", max_retries=0)
error = raised(openai.AuthenticationError, stranger.models.list)
assert error.code == "invalid_api_key", error
error = raised(openai.NotFoundError, client.files.list)
assert error.code == "unknown_path" and "send the content in each request" in error.message, error
done("errors")

limited = OpenAI(base_url=f"{gateway}/v1", api_key=limited_key, max_retries=0)
asked = {"model": SCRIPTED, "messages": HELLO}
error = None
for _ in range(100):
    try:
        limited.chat.completions.create(**asked)
    except openai.RateLimitError as limit:
        error = limit
        break
assert error and error.code == "rate_limit_exceeded" and error.response.headers["retry-after"], error
# With the client's own retries, the same request waits as long as the gateway says.
patient = limited.with_options(max_retries=5)
raw = patient.chat.completions.with_raw_response.create(**asked)
assert raw.retries_taken > 0 and raw.parse().choices[0].message.content == "All done."
done("retries on 429")

count = [{"role": "user", "content": "COUNT"}]
with client.chat.completions.create(model=SCRIPTED, messages=count, stream=True) as stream:
    for number, _ in zip(range(5), stream):
        pass
all_streams_ended()
with client.responses.create(model=SCRIPTED, input="COUNT", stream=True) as stream:
    for number, _ in zip(range(5), stream):
        pass
all_streams_ended()
done("cancelled stream")
