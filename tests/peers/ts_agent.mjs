// An agent made with the official TypeScript SDK: `ts_agent.mjs [--locked]`. Locked, it wants a login first.
//
// The first word of a prompt says what it does with everything the SDK offers; without such a word the prompt is said
// again. What the client gets wrong, the SDK's schemas say on stderr.

import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

import { acp, checked } from "./ts_sdk.mjs";

const { agent: AGENT, client: CLIENT } = acp.methods;

let locked = process.argv.includes("--locked");
const sessions = new Map();
let lastId = 0;

const MODES = [
  { id: "ask", name: "Ask", description: "Asks first" },
  { id: "code", name: "Code" },
];

const PAGE = 2; // sessions in a page of session/list

const COMMANDS = [{ name: "fly", description: "Fly away", input: { hint: "where to" } }];

class Session {
  constructor(id, { cwd, additionalDirectories = [], mcpServers }) {
    Object.assign(this, { id, cwd, additionalDirectories, mcpServers, open: true, history: [], title: null });
    this.mode = "ask";
    this.loud = false;
    this.turn = null;
  }

  get configOptions() {
    return [
      {
        id: "model",
        name: "Model",
        category: "model",
        type: "select",
        currentValue: "small",
        options: [{ group: "g", name: "Group", options: [{ value: "small", name: "Small" }, { value: "big", name: "Big" }] }],
      },
      { id: "loud", name: "Loud", type: "boolean", currentValue: this.loud },
    ];
  }

  get setup() {
    return {
      modes: { currentModeId: this.mode, availableModes: MODES },
      configOptions: this.configOptions,
      _meta: { servers: this.mcpServers.map(({ name }) => name) },
    };
  }
}

function known(sessionId, open = true) {
  const session = sessions.get(sessionId);
  if (session === undefined || (open && !session.open)) throw acp.RequestError.resourceNotFound(sessionId);
  return session;
}

// ---------------------------------------------------------------------------------------------- what a prompt can do

const text = (text) => ({ type: "text", text });
const shown = (content) => ({ type: "content", content });

/** What a turn works with: the client, the session, and the signal of its cancellation. */
class Turn {
  constructor(client, session) {
    Object.assign(this, { client, session, sessionId: session.id, cancelled: new AbortController() });
  }

  send(sessionUpdate, update) {
    return this.client.notify(CLIENT.session.update, {
      sessionId: this.sessionId,
      update: { sessionUpdate, ...update },
    });
  }

  say(said) {
    return this.send("agent_message_chunk", { content: text(said), messageId: "said" });
  }

  ask(method, params) {
    return this.client.request(method, { sessionId: this.sessionId, ...params });
  }
}

const WORDS = {
  async tool(turn, rest) {
    await turn.send("tool_call", {
      toolCallId: "call",
      title: "Think",
      kind: "think",
      status: "pending",
      rawInput: { rest },
      locations: [{ path: "/a", line: 1 }],
    });
    const { outcome } = await turn.ask(CLIENT.session.requestPermission, {
      toolCall: { toolCallId: "call" },
      options: [
        { optionId: "yes", name: "Yes", kind: "allow_once" },
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    });
    if (outcome.outcome === "cancelled") return turn.cancelled.abort(); // the SDK may tell of session/cancel later
    const allowed = outcome.optionId === "yes";
    await turn.send("tool_call_update", { toolCallId: "call", status: "in_progress" });
    await turn.send("tool_call_update", {
      toolCallId: "call",
      status: allowed ? "completed" : "failed",
      content: [shown(text(rest)), { type: "diff", path: "/a", oldText: "old", newText: "new" }],
      rawOutput: allowed,
    });
  },

  async files(turn, path) {
    await turn.ask(CLIENT.fs.writeTextFile, { path, content: "one\r\ntwo\r\nthree" });
    const { content } = await turn.ask(CLIENT.fs.readTextFile, { path, line: 2, limit: 1 });
    await turn.say(content);
  },

  async missing(turn, path) {
    const code = await turn.ask(CLIENT.fs.readTextFile, { path }).catch((error) => error.code);
    await turn.say(`${code}`);
  },

  async terminal(turn, line) {
    const terminal = await turn.client.createTerminal({
      sessionId: turn.sessionId,
      command: "sh",
      args: ["-c", line],
      env: [{ name: "PARROT", value: "Polly" }],
      outputByteLimit: 1000,
    });
    try {
      const content = [{ type: "terminal", terminalId: terminal.id }];
      await turn.send("tool_call", { toolCallId: "run", title: line, kind: "execute", status: "in_progress", content });
      const { exitCode } = await terminal.waitForExit();
      const { output, truncated, exitStatus } = await terminal.currentOutput();
      await turn.say(JSON.stringify([exitCode, output, truncated, exitStatus]));
    } finally {
      await terminal.release();
    }
  },

  async kill(turn, line) {
    const terminal = await turn.client.createTerminal({ sessionId: turn.sessionId, command: "sleep", args: ["300"] });
    await terminal.kill();
    await turn.say(JSON.stringify(await terminal.waitForExit()));
    await terminal.release();
  },

  async ask(turn, message) {
    const answer = await turn.ask(CLIENT.elicitation.create, {
      mode: "form",
      message,
      requestedSchema: {
        type: "object",
        properties: {
          name: { type: "string", title: "Name", minLength: 1 },
          colour: { type: "string", oneOf: [{ const: "grey", title: "Grey" }], default: "grey" },
          seeds: { type: "integer", minimum: 0, default: 20 },
          days: { type: "array", items: { type: "string", enum: ["Saturday", "Sunday"] } },
        },
        required: ["name"],
      },
    });
    await turn.say(JSON.stringify(answer));
  },

  async open(turn, url) {
    const answer = await turn.ask(CLIENT.elicitation.create, {
      mode: "url",
      message: "Read this",
      url,
      elicitationId: "page",
    });
    await turn.client.notify(CLIENT.elicitation.complete, { elicitationId: "page" });
    await turn.say(answer.action);
  },

  /** Every kind of update, and every kind of content. */
  async everything(turn) {
    await turn.send("user_message_chunk", { content: text("you"), messageId: "you" });
    await turn.send("agent_thought_chunk", { content: text("hm") });
    for (const content of [
      { ...text("for you"), annotations: { audience: ["user"], priority: 0.5 } },
      { type: "image", data: "AAAA", mimeType: "image/png", uri: "file:///a.png" },
      { type: "audio", data: "AAAA", mimeType: "audio/wav" },
      { type: "resource_link", uri: "file:///a", name: "a", size: 1 },
      { type: "resource", resource: { uri: "file:///a", text: "a", mimeType: "text/plain" } },
      { type: "resource", resource: { uri: "file:///b", blob: "AAAA" } },
    ])
      await turn.send("agent_message_chunk", { content, messageId: "all" });
    await turn.send("tool_call", { toolCallId: "t", title: "T" });
    await turn.send("tool_call_update", { toolCallId: "t", title: "T!", status: "completed", rawOutput: { n: [null] } });
    await turn.send("plan", { entries: [{ content: "go", priority: "high", status: "pending" }] });
    await turn.send("available_commands_update", { availableCommands: COMMANDS });
    await turn.send("current_mode_update", { currentModeId: "code" });
    await turn.send("config_option_update", { configOptions: turn.session.configOptions });
    await turn.send("session_info_update", { title: "All there is", updatedAt: "2026-01-02T03:04:05Z" });
    await turn.send("usage_update", { used: 1, size: 2, cost: { amount: 0.5, currency: "EUR" } });
    await turn.send("notice", { severity: "warning", title: "Careful", description: "It is high" });
    await turn.send("compaction_update", { compactionId: "c", status: "in_progress" });
    await turn.send("compaction_summary_chunk", { compactionId: "c", content: text("short") });
    await turn.send("compaction_update", { compactionId: "c", status: "completed" });
  },

  async wait(turn) {
    await turn.say("waiting");
    await sleep(300_000, undefined, { signal: turn.cancelled.signal }).catch(() => {});
    await turn.say("stopped");
  },

  async break() {
    throw new Error("broken");
  },
};

async function prompt({ params, client }) {
  const session = known(params.sessionId);
  const said = params.prompt.map((block) => block.text ?? `[${block.type}]`).join("");
  const [word, rest] = said.split(/ (.*)/s);
  const turn = (session.turn = new Turn(client, session));
  try {
    if (Object.hasOwn(WORDS, word)) await WORDS[word](turn, rest);
    else for (const { type, ...block } of params.prompt) await turn.send("agent_message_chunk", { content: { type, ...block } });
  } finally {
    session.turn = null;
  }
  if (turn.cancelled.signal.aborted) return { stopReason: "cancelled" };
  session.history.push(["user_message_chunk", said], ["agent_message_chunk", `did ${word}`]);
  return { stopReason: "end_turn" };
}

// ------------------------------------------------------------------------------------------------------- the agent

const faults = { push: (...found) => found.forEach((fault) => console.error(fault)) };

const app = acp
  .agent({ name: "ts-sdk-parrot" })
  .onRequest(AGENT.initialize, ({ params }) => ({
    protocolVersion: Math.min(params.protocolVersion, acp.PROTOCOL_VERSION),
    agentInfo: { name: "ts-sdk-parrot", title: "Parrot", version: "1" },
    authMethods: [{ id: "key", name: "Key" }],
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, embeddedContext: true },
      mcpCapabilities: { http: true },
      sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, additionalDirectories: {} },
      auth: { logout: {} },
      _meta: { announced: params.clientCapabilities },
    },
  }))
  .onRequest(AGENT.authenticate, () => void (locked = false))
  .onRequest(AGENT.logout, () => void (locked = true))
  .onRequest(AGENT.session.new, ({ params }) => {
    if (locked) throw acp.RequestError.authRequired();
    const session = new Session(`parrot-${lastId++}`, params);
    sessions.set(session.id, session);
    return { sessionId: session.id, ...session.setup };
  })
  .onRequest(AGENT.session.load, async ({ params, client }) => {
    const session = known(params.sessionId, false);
    Object.assign(session, { open: true, mcpServers: params.mcpServers });
    for (const [sessionUpdate, said] of session.history)
      await client.notify(CLIENT.session.update, {
        sessionId: session.id,
        update: { sessionUpdate, content: text(said) },
      });
    return session.setup;
  })
  .onRequest(AGENT.session.resume, ({ params }) => {
    const session = known(params.sessionId, false);
    session.open = true;
    return session.setup;
  })
  .onRequest(AGENT.session.close, ({ params }) => {
    const session = known(params.sessionId);
    session.turn?.cancelled.abort();
    session.open = false;
  })
  .onRequest(AGENT.session.delete, ({ params }) => void sessions.delete(params.sessionId))
  .onRequest(AGENT.session.list, ({ params }) => {
    const found = [...sessions.values()].filter(({ cwd }) => params.cwd == null || cwd === params.cwd);
    const from = Number(params.cursor ?? 0);
    const page = found.slice(from, from + PAGE).map(({ id, cwd, title }) => ({ sessionId: id, cwd, title }));
    return { sessions: page, nextCursor: from + PAGE < found.length ? `${from + PAGE}` : null };
  })
  .onRequest(AGENT.session.setMode, ({ params }) => {
    known(params.sessionId).mode = params.modeId;
  })
  .onRequest(AGENT.session.setConfigOption, ({ params }) => {
    const session = known(params.sessionId);
    if (params.configId === "loud") session.loud = params.value;
    return { configOptions: session.configOptions };
  })
  .onRequest(AGENT.session.prompt, prompt)
  .onNotification(AGENT.session.cancel, ({ params }) => sessions.get(params.sessionId)?.turn?.cancelled.abort())
  .onRequest(
    "_parrot/fly",
    (params) => params,
    async ({ params, client }) => ({
      flown: params.to,
      heard: await client.request("_parrot/call", { back: params.to }),
    }),
  )
  .onRequest(
    "_parrot/wait",
    (params) => params,
    async ({ signal, client }) => {
      await client.notify("_parrot/news", { waiting: true });
      await sleep(300_000, undefined, { signal }).catch(() => {});
      await client.notify("_parrot/news", { waiting: false });
    },
  )
  .onNotification(
    "_parrot/news",
    (params) => params,
    ({ params, client }) => client.notify("_parrot/news", { ...params, echoed: true }),
  );

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
await app.connect(checked(stream, faults)).closed;
process.exit();
