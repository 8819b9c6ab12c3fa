// What both clients' scripts share: their arguments and checks.

import assert from "node:assert/strict";

export const [gateway, server, key, limitedKey, late] = process.argv.slice(2);
export const [TINY, SCRIPTED] = ["meridian-tiny", "scripted"];
export const HELLO = [{ role: "user", content: "hello" }];
export const done = (step) => console.log("ok", step);

/** The error of a call, which must be of this type. */
export async function raised(kind, call) {
  try {
    await call();
  } catch (error) {
    assert.equal(error.constructor, kind, error);
    return error;
  }
  assert.fail(`no ${kind.name}`);
}

export async function allStreamsEnded() {
  for (let n = 0; n < 500; n++) {
    if ((await (await fetch(`${server}/open`)).json()) === 0) return;
    await new Promise((then) => setTimeout(then, 20));
  }
  assert.fail("a stream goes on");
}
