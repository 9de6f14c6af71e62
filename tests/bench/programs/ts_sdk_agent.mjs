// An agent made with the official TypeScript SDK: `ts_sdk_agent [--record FILE]`.

import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const TEXT = "The quick brown fox jumps over the lazy dog.";
const MODE = "a";

const named = process.argv.indexOf("--record");
const record =
  named < 0 ? [] : readFileSync(process.argv[named + 1], "utf-8").trimEnd().split("\n").map((line) => JSON.parse(line));

const methods = acp.methods.agent;
const UPDATE = acp.methods.client.session.update;

acp
  .agent({ name: "bench" })
  .onRequest(methods.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest(methods.session.new, () => ({
    sessionId: "s1",
    modes: { currentModeId: MODE, availableModes: [{ id: MODE, name: "The only one" }] },
  }))
  .onRequest(methods.session.setMode, () => ({}))
  .onRequest(methods.session.prompt, async ({ client, params: { sessionId, prompt } }) => {
    const [task, size] = prompt[0].text.slice(0, 100).split(" ");
    const say = (text) =>
      client.notify(UPDATE, {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
      });
    if (task === "updates") for (let i = 0; i < Number(size); i++) await say(TEXT);
    else if (task === "large") await say((TEXT + "\n").repeat(Number(size) / (TEXT.length + 2)));
    else if (task === "record") for (const update of record) await client.notify(UPDATE, { sessionId, update });
    return { stopReason: "end_turn" };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
