"""LiteLLM as a library against a gateway: prints the name of each step that went well.

    litellm_client.py GATEWAY KEY
"""

import json
import sys

import litellm

gateway, key = sys.argv[1:]
HELLO = [{"role": "user", "content": "hello"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]


def check(name, provider, base):
    def ask(model="scripted", messages=HELLO, **further):
        return litellm.completion(model=f"{provider}/{model}", messages=messages, api_base=base,
                                  api_key=key, num_retries=0, max_tokens=50, **further)

    assert ask().choices[0].message.content == "All done."
    pieces = [chunk.choices[0].delta.content or "" for chunk in ask(stream=True)]
    assert "".join(pieces) == "All done.", pieces
    message = ask(tools=TOOLS).choices[0].message
    call = message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Bonn"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    last = ask(messages=[*HELLO, message, result], tools=TOOLS)
    assert last.choices[0].message.content == "All done."
    try:
        ask("none")
    except litellm.NotFoundError:
        pass
    else:
        raise AssertionError("no error")
    stream = ask(messages=[{"role": "user", "content": "COUNT"}], stream=True)
    for count, _ in zip(range(5), stream):
        pass
    print("ok", name, flush=True)


check("chat completions", "openai", f"{gateway}/v1")
check("messages", "anthropic", gateway)
