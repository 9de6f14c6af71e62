// A client made with the official TypeScript SDK: `ts_client.mjs CWD MCP_SERVER -- AGENT...`.
//
// It goes through everything the SDK can do, ends the agent, starts it again and takes up its sessions, and prints what
// it saw as one JSON object. MCP_SERVER is an MCP stdio server in wire form.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

import { acp, checked } from "./ts_sdk.mjs";

const [cwd, server, , ...command] = process.argv.slice(2);
const { agent: AGENT, client: CLIENT } = acp.methods;

const CAPABILITIES = {
  fs: { readTextFile: true, writeTextFile: true },
  terminal: true,
  session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
  elicitation: { form: {}, url: {} },
};

/** What is wrong with what the agent sent. */
const faults = [];

/** What the agent sent and asked for since the last `begin`. */
let updates = [];
let asked = [];
let permission = "allow_once";
let news = () => {};

function begin() {
  updates = [];
  asked = [];
}

/** Wait for an update that fits. */
async function sent(fits) {
  while (!updates.some(fits)) await new Promise((resolve) => (news = resolve));
}

// ------------------------------------------------------------------------------------------- what a client does for it

const terminals = new Map();

function createTerminal({ command, args = [], env = [], cwd: directory }) {
  const process_ = spawn(command, args, {
    cwd: directory ?? cwd,
    env: { ...process.env, ...Object.fromEntries(env.map(({ name, value }) => [name, value])) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const terminal = { process: process_, output: "", status: null };
  for (const stream of [process_.stdout, process_.stderr])
    stream.on("data", (chunk) => (terminal.output += chunk.toString()));
  terminal.ended = once(process_, "close").then(
    ([exitCode, signal]) => (terminal.status = { exitCode, signal }),
  );
  const terminalId = `term-${terminals.size}`;
  terminals.set(terminalId, terminal);
  return { terminalId };
}

function readTextFile({ path, line, limit }) {
  let lines;
  try {
    lines = readFileSync(path, "utf8").split(/(?<=\n)/);
  } catch {
    throw acp.RequestError.resourceNotFound(path);
  }
  const first = (line ?? 1) - 1;
  return { content: lines.slice(first, limit == null ? undefined : first + limit).join("") };
}

function answerPermission({ options }) {
  const option = options.find(({ kind }) => kind === permission);
  return { outcome: { outcome: "selected", optionId: option.optionId } };
}

function answerElicitation({ mode }) {
  return mode === "form" ? { action: "accept", content: { name: "Polly", talks: false } } : { action: "accept" };
}

function noted(name, handler) {
  return ({ params }) => {
    asked.push(name);
    return handler(params);
  };
}

const app = acp
  .client({ name: "ts-sdk" })
  .onNotification(CLIENT.session.update, ({ params }) => {
    updates.push(params.update);
    news();
  })
  .onRequest(CLIENT.session.requestPermission, noted("permission", answerPermission))
  .onRequest(CLIENT.fs.readTextFile, noted("read", readTextFile))
  .onRequest(CLIENT.fs.writeTextFile, noted("write", ({ path, content }) => writeFileSync(path, content)))
  .onRequest(CLIENT.terminal.create, noted("create", createTerminal))
  .onRequest(
    CLIENT.terminal.output,
    noted("output", ({ terminalId }) => {
      const { output, status } = terminals.get(terminalId);
      return { output, truncated: false, exitStatus: status };
    }),
  )
  .onRequest(CLIENT.terminal.waitForExit, noted("wait", ({ terminalId }) => terminals.get(terminalId).ended))
  .onRequest(CLIENT.terminal.kill, noted("kill", ({ terminalId }) => void terminals.get(terminalId).process.kill()))
  .onRequest(
    CLIENT.terminal.release,
    noted("release", ({ terminalId }) => {
      terminals.get(terminalId).process.kill();
      terminals.delete(terminalId);
    }),
  )
  .onRequest(CLIENT.elicitation.create, noted("elicit", answerElicitation))
  .onNotification(CLIENT.elicitation.complete, noted("complete", () => {}));

// ------------------------------------------------------------------------------------------------- what it asks for

/** Start the agent, initialize it, do `work` with it, and end it by closing its stdin. */
async function withAgent(work) {
  const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(agent, "close");
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  await app.connectWith(checked(stream, faults), async (context) => {
    await work(
      context,
      await context.request(AGENT.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: CAPABILITIES,
        clientInfo: { name: "ts-sdk", version: "1" },
      }),
    );
  });
  agent.stdin.end();
  const [status] = await ended;
  if (status !== 0) faults.push(`the agent ended with ${status}`);
}

function prompt(context, sessionId, text, options) {
  begin();
  return context.request(AGENT.session.prompt, { sessionId, prompt: [{ type: "text", text }] }, options);
}

async function say(context, sessionId, text) {
  const { stopReason } = await prompt(context, sessionId, text);
  await new Promise(setImmediate); // the SDK hands over a notification a few steps later than an answer behind it
  return { stopReason, updates: [...updates], asked: [...asked] };
}

async function codeOf(response) {
  try {
    return { result: await response };
  } catch (error) {
    if (!(error instanceof acp.RequestError)) throw error;
    return error.code;
  }
}

const seen = { turns: {}, faults };

await withAgent(async (context, initialized) => {
  seen.initialize = initialized;
  seen.new = await context.request(AGENT.session.new, { cwd, mcpServers: [JSON.parse(server)] });
  const { sessionId } = seen.new;

  for (const text of [
    "hello \u2028 \u{1F99C}",
    "/mcp",
    '/call good echo {"text": "from MCP"}',
    "/write a.txt one\ntwo\n",
    "/read a.txt 2",
    "/read missing.txt",
    "/run echo from a terminal",
    "/ask",
    "/plan",
    "/mode code",
    "/mode ask",
    "/title Two parrots",
    "/showcase",
  ])
    seen.turns[text] = await say(context, sessionId, text);

  permission = "reject_once";
  seen.rejected = await say(context, sessionId, '/call good echo {"text": "never"}');
  permission = "allow_once";

  // session/cancel, with the agent asleep and with a tool that hangs
  const sleeping = prompt(context, sessionId, "/sleep 300");
  await context.notify(AGENT.session.cancel, { sessionId });
  seen.slept = (await sleeping).stopReason;
  const hanging = prompt(context, sessionId, "/call good hang");
  await sent(({ status }) => status === "in_progress");
  await context.notify(AGENT.session.cancel, { sessionId });
  seen.cancelled = { stopReason: (await hanging).stopReason, updates: [...updates] };

  // $/cancel_request
  const given = new AbortController();
  const abandoned = prompt(context, sessionId, "/sleep 300", { cancellationSignal: given.signal });
  given.abort();
  seen.abandoned = await codeOf(abandoned);

  await context.request(AGENT.session.setMode, { sessionId, modeId: "code" });
  seen.set = await context.request(AGENT.session.setConfigOption, {
    sessionId,
    configId: "think_aloud",
    type: "boolean",
    value: true,
  });
  seen.after = await say(context, sessionId, "after all");
  await context.request(AGENT.session.setConfigOption, {
    sessionId,
    configId: "think_aloud",
    type: "boolean",
    value: false,
  });
  const long = "x".repeat(10 * 1024 * 1024);
  await prompt(context, sessionId, long);
  seen.long = [updates.length, updates[0].content.text === long];

  await context.notify("_nothing/here", {});
  seen.errors = {
    "relative cwd": await codeOf(context.request(AGENT.session.new, { cwd: "here", mcpServers: [] })),
    "unknown session": await codeOf(
      context.request(AGENT.session.prompt, { sessionId: "nobody", prompt: [{ type: "text", text: "?" }] }),
    ),
    "unknown extension": await codeOf(context.request("_nothing/here", {})),
    "unknown method": await codeOf(context.request("session/fork", { sessionId, cwd, mcpServers: [] })),
    "unknown login": await codeOf(context.request(AGENT.authenticate, { methodId: "key" })),
    "no prompt": await codeOf(context.request(AGENT.session.prompt, { sessionId })),
  };
});

await withAgent(async (context) => {
  const { sessionId } = seen.new;
  seen.list = await context.request(AGENT.session.list, { cwd });
  begin();
  seen.load = await context.request(AGENT.session.load, { sessionId, cwd, mcpServers: [] });
  seen.replay = updates.filter(({ content }) => !(content?.text?.length > 1_000_000));
  seen.loaded = await say(context, sessionId, "still there?");
  await context.request(AGENT.session.close, { sessionId });
  seen.closed = await codeOf(prompt(context, sessionId, "anybody?"));
  begin();
  seen.resume = await context.request(AGENT.session.resume, { sessionId, cwd, mcpServers: [] });
  seen.resumed = await say(context, sessionId, "and again");
  await context.request(AGENT.session.close, { sessionId });
  await context.request(AGENT.session.delete, { sessionId });
  seen.deleted = await codeOf(context.request(AGENT.session.load, { sessionId, cwd, mcpServers: [] }));
  seen.listAfter = await context.request(AGENT.session.list, {});
  await context.request(AGENT.logout, {});
  seen.loggedOut = await codeOf(context.request(AGENT.session.new, { cwd, mcpServers: [] }));
  await context.request(AGENT.authenticate, { methodId: "demo" });
  seen.loggedIn = await codeOf(context.request(AGENT.session.new, { cwd, mcpServers: [] }));
});

console.log(JSON.stringify(seen));
