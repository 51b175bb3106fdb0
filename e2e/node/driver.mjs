// Drives one official client over one connection, as told on standard input.
//
//   driver.mjs client modern|auto|legacy http <url>
//   driver.mjs client modern|auto|legacy stdio <command> [argument]...
//   driver.mjs sdk legacy http|stdio ...
//
// Each line of input is a command and each line of output is what has happened, both
// JSON. Commands carry an id, which comes back with their outcome:
//
//   {"id":1,"op":"list"}
//   {"id":2,"op":"call","name":"echo","arguments":{"text":"x"},"progress":true}
//   {"id":3,"op":"cancel","call":2,"reason":"changed my mind"}
//   {"id":4,"op":"close"}
import { createInterface } from 'node:readline';

const [packageName, mode, transportName, ...target] = process.argv.slice(2);

function say(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

// load hides how the two packages differ.
async function load() {
  const info = { name: `e2e-${packageName}`, version: '1.2.3' };
  if (packageName === 'client') {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    const negotiation = { mode: mode === 'modern' ? { pin: '2026-07-28' } : mode };
    const client = new Client(info, { versionNegotiation: negotiation });
    return {
      client, StreamableHTTPClientTransport, StdioClientTransport,
      callTool: (params, options) => client.callTool(params, options),
      version: () => client.getNegotiatedProtocolVersion(),
    };
  }
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const client = new Client(info);
  let version;
  return {
    client, StreamableHTTPClientTransport, StdioClientTransport,
    callTool: (params, options) => client.callTool(params, undefined, options),
    // This client tells its transport the version, and nobody else.
    watch: transport => {
      const inner = transport.setProtocolVersion?.bind(transport);
      transport.setProtocolVersion = v => { version = v; inner?.(v); };
    },
    version: () => version,
  };
}

function describe(error) {
  return { name: error?.constructor?.name, code: error?.code, message: String(error?.message ?? error) };
}

const peer = await load();
const transport = transportName === 'http'
  ? new peer.StreamableHTTPClientTransport(new URL(target[0]))
  : new peer.StdioClientTransport({ command: target[0], args: target.slice(1), env: { ...process.env }, stderr: 'inherit' });
peer.watch?.(transport);
try {
  await peer.client.connect(transport);
} catch (error) {
  say({ event: 'failed', error: describe(error) });
  process.exit(1);
}
// Set after connect, which sets its own: what goes wrong outside of any call.
peer.client.onerror = error => say({ event: 'trouble', error: describe(error) });
say({ event: 'connected', version: peer.version(), server: peer.client.getServerVersion() });

const calls = new Map(); // id -> AbortController

const commands = {
  async list() {
    const { tools } = await peer.client.listTools();
    return { tools };
  },
  async call({ id, name, arguments: args, progress }) {
    const controller = new AbortController();
    calls.set(id, controller);
    const options = { signal: controller.signal, timeout: 60_000 };
    if (progress) {
      options.onprogress = p => say({ id, progress: p });
    }
    try {
      return { result: await peer.callTool({ name, arguments: args }, options) };
    } finally {
      calls.delete(id);
    }
  },
  async cancel({ call, reason }) {
    calls.get(call).abort(reason);
    return {};
  },
  async close() {
    await peer.client.close();
    return {};
  },
};

const running = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const work = commands[command.op](command).then(
    outcome => say({ id: command.id, ...outcome }),
    error => say({ id: command.id, error: describe(error) }),
  );
  running.add(work);
  work.finally(() => running.delete(work));
  if (command.op === 'close') {
    break;
  }
}
await Promise.all(running);
process.exit(0);
