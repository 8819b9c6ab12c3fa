// Anthropic's client for Node.js against a gateway: prints the name of each step that went well.
//
//     anthropic_sdk.mjs GATEWAY MODEL_SERVER KEY LIMITED_KEY LATE

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import {
  HELLO, SCRIPTED, TINY, allStreamsEnded, done, gateway, key, late, limitedKey, raised,
} from "./steps.mjs";

const make = (apiKey, maxRetries) => new Anthropic({ baseURL: gateway, apiKey, maxRetries });
const client = make(key, 0);
const create = (changed, by = client) =>
  by.messages.create({ model: TINY, messages: HELLO, max_tokens: 5, ...changed });

const answer = await create({ temperature: 0 });
assert.equal(answer.usage.output_tokens, 5);
const text = answer.content[0].text;
done("message");

const stream = client.messages.stream({
  model: TINY, messages: HELLO, max_tokens: 5, temperature: 0,
});
assert.equal(await stream.finalText(), text);
done("message stream");

const counted = await client.messages.countTokens({ model: TINY, messages: HELLO });
assert.ok(counted.input_tokens > 0);
done("count tokens");

const input_schema = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ name: "weather", input_schema }];
const message = await client.messages
  .stream({ model: SCRIPTED, messages: HELLO, tools, max_tokens: 50 })
  .finalMessage();
const [call] = message.content;
assert.deepEqual([message.stop_reason, call.input], ["tool_use", { city: "Bonn" }]);
const result = { type: "tool_result", tool_use_id: call.id, content: "rain" };
const said = { role: "assistant", content: message.content };
const messages = [...HELLO, said, { role: "user", content: [result] }];
const last = await create({ model: SCRIPTED, messages, tools });
assert.equal(last.content[0].text, "All done.");
done("tools");

// The replica of this model starts after the first 503.
const absent = await raised(Anthropic.ServiceUnavailableError, () => create({ model: late }));
assert.equal(absent.status, 503);
const there = await create({ model: late }, make(key, 30));
assert.equal(there.content[0].text, "All done.");
done("retries on 503");

// Comments come in the silence before the first token, then the answer; or an error, if no replica does.
const SLOW = [{ role: "user", content: "SLOW" }];
const slow = client.messages.stream({ model: SCRIPTED, messages: SLOW, max_tokens: 50 });
assert.equal(await slow.finalText(), "All done.");
const none = await raised(Anthropic.APIError, async () => {
  for await (const event of await create({ model: "zero", stream: true })) assert.fail(event);
});
assert.match(none.message, /no replica of the requested model came within 3 s/);
done("comments");

const unknown = await raised(Anthropic.NotFoundError, () => create({ model: "none" }));
assert.equal(unknown.error.error.type, "not_found_error");
assert.ok(unknown.requestID, "support needs the id");
const bad = await raised(Anthropic.BadRequestError, () => create({ messages: "hello" }));
assert.equal(bad.error.error.type, "invalid_request_error");
await raised(Anthropic.AuthenticationError, () => create({}, make("unknown", 0)));
done("errors");

let limited;
for (let n = 0; n < 100 && !limited; n++) {
  await create({ model: SCRIPTED }, make(limitedKey, 0)).catch((error) => (limited = error));
}
assert.equal(limited?.constructor, Anthropic.RateLimitError, limited);
// With the client's own retries, the same request waits as long as the gateway says.
const waited = await create({ model: SCRIPTED }, make(limitedKey, 5));
assert.equal(waited.content[0].text, "All done.");
done("retries on 429");

const endless = await create({
  model: SCRIPTED, messages: [{ role: "user", content: "COUNT" }], stream: true,
});
let pieces = 0;
for await (const event of endless) {
  assert.ok(event.type);
  if (++pieces === 5) break;
}
await allStreamsEnded();
done("cancelled stream");
