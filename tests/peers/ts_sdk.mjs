// The official TypeScript SDK, from the folder NODE_MODULES (an environment variable), and a stream of it that checks
// everything the other side sends against the SDK's own zod schemas, more strictly than the SDK does.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const main = createRequire(join(process.env.NODE_MODULES, "_.js")).resolve("@agentclientprotocol/sdk");
const root = dirname(dirname(dirname(dirname(main))));

export const acp = await import(pathToFileURL(main));
const zod = await import(pathToFileURL(join(root, "dist", "v1", "schema", "zod.gen.js")));

/** By wire name: the zod schemas of a method's params and result, as the JSON Schema names them. */
const schemas = {};
for (const [name, definition] of Object.entries(
  JSON.parse(readFileSync(join(root, "schema", "v1", "schema.json"), "utf8")).$defs,
)) {
  const method = definition["x-method"];
  if (method !== undefined) {
    (schemas[method] ??= {})[name.endsWith("Response") ? "result" : "params"] = zod[`z${name}`];
  }
}

/**
 * The paths in `sent` that `read` has not, or has otherwise: what the schema does not know, and what broke it but was
 * tolerated. What only `read` has are defaults.
 */
function* lost(sent, read, path = "$") {
  if (sent === null || typeof sent !== "object") {
    if (sent !== read) yield `${path} is ${JSON.stringify(sent)}, read as ${JSON.stringify(read)}`;
  } else if (read === null || typeof read !== "object" || Array.isArray(sent) !== Array.isArray(read)) {
    yield `${path} is read as ${JSON.stringify(read)}`;
  } else if (Array.isArray(sent) && sent.length !== read.length) {
    yield `${path} has ${sent.length} items, ${read.length} of them read`;
  } else {
    for (const [key, value] of Object.entries(sent)) {
      if (Object.hasOwn(read, key)) yield* lost(value, read[key], `${path}.${key}`);
      else yield `${path}.${key} is not read`;
    }
  }
}

function* check(schema, value, where) {
  if (schema === undefined) return yield `${where}: there is no such method`;
  const { success, error, data } = schema.safeParse(value);
  if (!success) yield* error.issues.map((issue) => `${where}: $.${issue.path.join(".")}: ${issue.message}`);
  else for (const problem of lost(value, data)) yield `${where}: ${problem}`;
}

/**
 * `stream`, with everything wrong with what comes in appended to `faults`. Methods with an underscore have no schema.
 */
export function checked(stream, faults) {
  const asked = new Map();
  const incoming = new TransformStream({
    transform(message, controller) {
      const { method, id } = message;
      if (method?.startsWith("_")) {
        // an extension
      } else if (method !== undefined) {
        faults.push(...check(schemas[method]?.params, message.params, method));
      } else if ("result" in message) {
        if (!asked.has(id)) faults.push(`there was no request ${id}`);
        else if (!asked.get(id).startsWith("_"))
          faults.push(...check(schemas[asked.get(id)]?.result, message.result, `result of ${asked.get(id)}`));
        asked.delete(id);
      } else if (!asked.delete(id)) {
        faults.push(`there was no request ${id}: ${JSON.stringify(message)}`);
      }
      controller.enqueue(message);
    },
  });
  const outgoing = new TransformStream({
    transform(message, controller) {
      if (message.method !== undefined && "id" in message) asked.set(message.id, message.method);
      controller.enqueue(message);
    },
  });
  outgoing.readable.pipeTo(stream.writable).catch(() => {});
  return { readable: stream.readable.pipeThrough(incoming), writable: outgoing.writable };
}
