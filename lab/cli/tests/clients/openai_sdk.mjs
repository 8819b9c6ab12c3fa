// OpenAI's client for Node.js against a gateway: prints the name of each step that went well.
//
//     openai_sdk.mjs GATEWAY MODEL_SERVER KEY LIMITED_KEY LATE

import assert from "node:assert/strict";
import OpenAI from "openai";
import {
  HELLO, SCRIPTED, TINY, allStreamsEnded, done, gateway, key, late, limitedKey, raised,
} from "./steps.mjs";

const make = (apiKey, maxRetries) => new OpenAI({ baseURL: `${gateway}/v1`, apiKey, maxRetries });
const client = make(key, 0);
const chat = (changed, by = client) =>
  by.chat.completions.create({ model: TINY, messages: HELLO, max_tokens: 5, ...changed });

const answer = await chat({ temperature: 0 });
assert.equal(answer.usage.completion_tokens, 5);
const text = answer.choices[0].message.content;
done("chat");

let streamed = "";
for await (const chunk of await chat({ temperature: 0, stream: true })) {
  streamed += chunk.choices[0]?.delta.content ?? "";
}
assert.equal(streamed, text);
done("chat stream");

const types = [];
const events = await client.responses.create({
  model: TINY, input: "hello", max_output_tokens: 5, stream: true,
});
for await (const event of events) types.push(event.type);
assert.deepEqual([types[0], types.at(-1)], ["response.created", "response.completed"]);
done("responses");

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
let asked;
const weather = ({ city }) => ((asked = city), "rain");
const run = client.chat.completions.runTools({
  model: SCRIPTED,
  messages: HELLO,
  stream: true,
  tools: [{ type: "function", function: { name: "weather", parameters, parse: JSON.parse, function: weather } }],
});
assert.equal(await run.finalContent(), "All done.");
assert.equal(asked, "Bonn");
done("tools");

// The replica of this model starts after the first 503.
const absent = await raised(OpenAI.InternalServerError, () => chat({ model: late }));
assert.equal(absent.status, 503);
const there = await chat({ model: late }, make(key, 30));
assert.equal(there.choices[0].message.content, "All done.");
done("retries on 503");

// Comments come in the silence before the first token, then the answer; or an error, if no replica does.
let said = "";
const SLOW = [{ role: "user", content: "SLOW" }];
for await (const chunk of await chat({ model: SCRIPTED, messages: SLOW, stream: true })) {
  said += chunk.choices[0]?.delta.content ?? "";
}
assert.equal(said, "All done.");
const none = await raised(OpenAI.APIError, async () => {
  for await (const chunk of await chat({ model: "zero", stream: true })) assert.fail(chunk);
});
assert.match(none.message, /no replica of the requested model came within 3 s/);
done("comments");

const unknown = await raised(OpenAI.NotFoundError, () => chat({ model: "none" }));
assert.equal(unknown.code, "model_not_found");
assert.ok(unknown.requestID, "support needs the id");
const bad = await raised(OpenAI.BadRequestError, () => chat({ messages: "hello" }));
assert.equal(bad.param, "messages");
const stranger = await raised(OpenAI.AuthenticationError, () => make("unknown", 0).models.list());
assert.equal(stranger.code, "invalid_api_key");
done("errors");

let limited;
for (let n = 0; n < 100 && !limited; n++) {
  await chat({ model: SCRIPTED }, make(limitedKey, 0)).catch((error) => (limited = error));
}
assert.equal(limited?.constructor, OpenAI.RateLimitError, limited);
// With the client's own retries, the same request waits as long as the gateway says.
const waited = await chat({ model: SCRIPTED }, make(limitedKey, 5));
assert.equal(waited.choices[0].message.content, "All done.");
done("retries on 429");

const endless = await chat({
  model: SCRIPTED, messages: [{ role: "user", content: "COUNT" }], stream: true,
});
let pieces = 0;
for await (const chunk of endless) {
  assert.ok(chunk.choices);
  if (++pieces === 5) break;
}
await allStreamsEnded();
done("cancelled stream");
