// A client made with the official TypeScript SDK: `ts_sdk_client TASK SIZE -- AGENT...`. It prints what it measured.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const split = process.argv.indexOf("--");
const [task, size] = process.argv.slice(2, split);
const [command, ...rest] = process.argv.slice(split + 1);
const work = task === "record" ? readFileSync(size, "utf-8").split("\n").length - 1 : Number(size);

const memory = (field) =>
  Number(readFileSync("/proc/self/status", "ascii").match(new RegExp(`^${field}:\\s*(\\d+)`, "m"))[1]) / 1024;

// Counts updates: one may still be under way when the answer of its prompt is there.
let wanted = task === "large" ? 1 : work;
let allCame;
const all = new Promise((resolve) => (allCame = resolve));

const child = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"] });
const client = acp.client({ name: "bench" }).onNotification(acp.methods.client.session.update, () => {
  if (--wanted === 0) allCame();
});

await client.connectWith(
  acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)),
  async (agent) => {
    const methods = acp.methods.agent;
    await agent.request(methods.initialize, { protocolVersion: 1, clientCapabilities: {} });
    const { sessionId } = await agent.request(methods.session.new, { cwd: "/", mcpServers: [] });
    const before = memory("VmRSS");
    const cpu = process.cpuUsage();
    const start = performance.now();
    if (task === "requests") {
      for (let i = 0; i < work; i++) await agent.request(methods.session.setMode, { sessionId, modeId: "a" });
    } else {
      const text = `${task} ${size}`;
      await agent.request(methods.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
      await all;
    }
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    const cpu_seconds = (user + system) / 1e6;
    console.log(JSON.stringify({ seconds, cpu_seconds, work, before_mib: before, peak_mib: memory("VmHWM") }));
  },
);
child.stdin.end();
process.exit(0);
