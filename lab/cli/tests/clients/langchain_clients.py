"""LangChain's clients of both APIs against a gateway: prints the name of each step that went well.

    langchain_clients.py GATEWAY KEY
"""

import sys

import anthropic
import openai
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

gateway, key = sys.argv[1:]
HELLO = HumanMessage("hello")


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def openai_chat(model="scripted", **changed):
    return ChatOpenAI(model=model, base_url=f"{gateway}/v1", api_key=key, max_retries=0, **changed)


def anthropic_chat(model="scripted"):
    return ChatAnthropic(model=model, base_url=gateway, api_key=key, max_retries=0, max_tokens=50)


def responses_chat(model="scripted"):
    return openai_chat(model, use_responses_api=True)


def check(name, make, error):
    chat = make()
    assert chat.invoke([HELLO]).text == "All done."
    assert "".join(chunk.text for chunk in chat.stream([HELLO])) == "All done."
    agent = chat.bind_tools([weather])
    call = agent.invoke([HELLO])
    assert call.tool_calls[0]["args"] == {"city": "Bonn"}, call
    result = weather.invoke(call.tool_calls[0])
    assert isinstance(result, ToolMessage) and result.content == "rain in Bonn"
    assert agent.invoke([HELLO, call, result]).text == "All done."
    try:
        make("none").invoke([HELLO])
    except error:
        pass
    else:
        raise AssertionError("no error")
    for count, _ in zip(range(5), make().stream([HumanMessage("COUNT")])):
        pass
    print("ok", name, flush=True)


check("chat completions", openai_chat, openai.NotFoundError)
check("responses", responses_chat, openai.NotFoundError)
check("messages", anthropic_chat, anthropic.NotFoundError)
