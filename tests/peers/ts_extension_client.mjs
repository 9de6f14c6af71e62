// A client made with the official TypeScript SDK that has extensions, and calls those of the agent:
// `ts_extension_client.mjs -- AGENT...`. It prints what it saw as one JSON object.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import { acp, checked } from "./ts_sdk.mjs";

const [, ...command] = process.argv.slice(2);
const faults = [];
const news = [];
let told;
const heard = new Promise((resolve) => (told = resolve));
const waiting = new AbortController();

const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const raw = (params) => params;
const app = acp
  .client({ name: "ts-sdk" })
  .onRequest("_parrot/call", raw, ({ params }) => ({ called: params }))
  .onNotification("_parrot/waiting", raw, () => waiting.abort())
  .onNotification("_parrot/news", raw, ({ params }) => told(news.push(params)));

const codeOf = (response) => response.then(() => null, ({ code }) => code);

await app.connectWith(checked(stream, faults), async (context) => {
  const { agentCapabilities } = await context.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
  });
  const flown = await context.request("_parrot/fly", { to: "home" });
  const refused = await codeOf(context.request("_parrot/swim", {}));
  const cancelled = await codeOf(context.request("_parrot/wait", {}, { cancellationSignal: waiting.signal }));
  await context.notify("_parrot/news", { n: 1 });
  await heard;
  console.log(JSON.stringify({ faults, announced: agentCapabilities._meta, flown, refused, cancelled, news }));
});
agent.stdin.end();
