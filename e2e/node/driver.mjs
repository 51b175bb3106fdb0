// Drives one official client over one connection, as told on standard input.
//
//   driver.mjs client modern|auto|legacy http <url>
//   driver.mjs client modern|auto|legacy stdio <command> [argument]...
//   driver.mjs sdk legacy http|stdio ...
//   driver.mjs client|sdk <mode> oauth <url> [URL of the client's metadata]
//                                               over HTTP, with access tokens as the server demands
//
// Each line of input is a command and each line of output is what has happened, both
// JSON. Commands carry an id, which comes back with their outcome, a result or an error:
//
//   {"id":1,"op":"list"}                        also prompts, resources, templates, ping
//   {"id":2,"op":"call","name":"echo","arguments":{"text":"x"},"progress":true}
//   {"id":3,"op":"cancel","call":2,"reason":"changed my mind"}
//   {"id":4,"op":"prompt","name":"greet","arguments":{"who":"x"}}
//   {"id":5,"op":"read","uri":"file:///x"}      also subscribe, unsubscribe
//   {"id":6,"op":"complete","ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"x"},"context":{}}
//   {"id":7,"op":"level","level":"debug"}       of the log, for the session or for each later call
//   {"id":8,"op":"watch"}                       the lists, where a client must ask for that
//   {"id":9,"op":"answer","action":"accept","content":{"name":"x"}}
//   {"id":10,"op":"roots","roots":[{"uri":"file:///x"}]}
//   {"id":11,"op":"end"}
//
// Elicitations are answered with the last answer that was given, of which a form gets
// what it asks for. The action "wait" lets a question wait until the next answer is given,
// or the server wants none any more. What the server sends of its own accord is told
// without an id:
//
//   {"event":"asked","method":"elicitation/create","params":{...}}
//   {"event":"relieved","method":"elicitation/create"}
//   {"event":"notified","method":"notifications/tools/list_changed","params":{...}}
//
// The programs in ../peers speak the same language.
import { createInterface } from 'node:readline';
import { Applicant } from './oauth.mjs';

const [packageName, mode, transportName, ...target] = process.argv.slice(2);

function say(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

const info = { name: `e2e-${packageName}`, version: '1.2.3' };
const capabilities = { elicitation: {}, sampling: {}, roots: { listChanged: true } };

// load hides how the two packages differ.
async function load() {
  if (packageName === 'client') {
    const { Client, StreamableHTTPClientTransport, UnauthorizedError, LOG_LEVEL_META_KEY } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    const versionNegotiation = { mode: mode === 'modern' ? { pin: '2026-07-28' } : mode };
    const client = new Client(info, { capabilities, versionNegotiation });
    return {
      client, StreamableHTTPClientTransport, StdioClientTransport, UnauthorizedError,
      finishAuth: (transport, callback) => transport.finishAuth(callback),
      logLevelKey: LOG_LEVEL_META_KEY,
      callTool: (params, options) => client.callTool(params, options),
      onRequest: (method, handler) => client.setRequestHandler(method, handler),
      version: () => client.getNegotiatedProtocolVersion(),
      modern: () => client.getProtocolEra() === 'modern',
    };
  }
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { UnauthorizedError } = await import('@modelcontextprotocol/sdk/client/auth.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const schemas = {
    'elicitation/create': types.ElicitRequestSchema,
    'sampling/createMessage': types.CreateMessageRequestSchema,
    'roots/list': types.ListRootsRequestSchema,
  };
  const client = new Client(info, { capabilities });
  let version;
  return {
    client, StreamableHTTPClientTransport, StdioClientTransport, UnauthorizedError,
    finishAuth: (transport, callback) => transport.finishAuth(callback.get('code')),
    callTool: (params, options) => client.callTool(params, undefined, options),
    onRequest: (method, handler) => client.setRequestHandler(schemas[method], handler),
    // This client tells its transport the version, and nobody else.
    watch: transport => {
      const inner = transport.setProtocolVersion?.bind(transport);
      transport.setProtocolVersion = v => { version = v; inner?.(v); };
    },
    version: () => version,
    modern: () => false,
  };
}

function describe(error) {
  return { name: error?.constructor?.name, code: error?.code, message: String(error?.message ?? error), data: error?.data };
}

const peer = await load();
const { client } = peer;

let roots = [{ uri: 'file:///test/root', name: 'Test Root' }];
let answer = { action: 'accept', content: {} };
let answered = () => {}; // called when there is another answer
const answers = {
  async 'elicitation/create'({ requestedSchema }, signal) {
    if (answer.action === 'wait') {
      await new Promise((resolve, reject) => {
        answered = resolve;
        signal.addEventListener('abort', () => {
          say({ event: 'relieved', method: 'elicitation/create' });
          reject(signal.reason);
        });
      });
    }
    if (answer.action !== 'accept') {
      return { action: answer.action };
    }
    const asked = Object.keys(requestedSchema.properties).filter(name => name in answer.content);
    return { action: 'accept', content: Object.fromEntries(asked.map(name => [name, answer.content[name]])) };
  },
  'sampling/createMessage': () => ({
    role: 'assistant', content: { type: 'text', text: 'This is a test response from the client' }, model: 'test-model', stopReason: 'endTurn',
  }),
  'roots/list': () => ({ roots }),
};
for (const [method, answering] of Object.entries(answers)) {
  peer.onRequest(method, async ({ params }, context) => {
    say({ event: 'asked', method, params });
    return answering(params, context.signal ?? context.mcpReq?.signal);
  });
}
client.fallbackNotificationHandler = async ({ method, params }) => say({ event: 'notified', method, params });

const applicant = transportName === 'oauth' ? new Applicant(target[1]) : undefined;
let transport;
async function connect() {
  transport = transportName === 'stdio'
    ? new peer.StdioClientTransport({ command: target[0], args: target.slice(1), env: { ...process.env }, stderr: 'inherit' })
    : new peer.StreamableHTTPClientTransport(new URL(target[0]), { authProvider: applicant });
  peer.watch?.(transport);
  await client.connect(transport);
}

// authorized does something again once its user has been to the authorization server.
async function authorized(attempt) {
  try {
    return await attempt();
  } catch (error) {
    if (!(applicant && error instanceof peer.UnauthorizedError)) {
      throw error;
    }
  }
  await peer.finishAuth(transport, applicant.callback());
  return attempt();
}

try {
  await authorized(connect);
} catch (error) {
  say({ event: 'failed', error: describe(error) });
  process.exit(1);
}
// Set after connect, which sets its own: what goes wrong outside of any call.
client.onerror = error => say({ event: 'trouble', error: describe(error) });
say({ event: 'connected', version: peer.version(), session: transport.sessionId });

const calls = new Map(); // id -> AbortController
const listening = new Map(); // what was asked for -> subscription
let meta; // of each call

async function listen(what, filter) {
  listening.set(what, await client.listen(filter));
  return {};
}

const commands = {
  list: () => client.listTools(),
  async call({ id, name, arguments: args, progress }) {
    const controller = new AbortController();
    calls.set(id, controller);
    const options = { signal: controller.signal, timeout: 60_000 };
    if (progress) {
      options.onprogress = p => say({ id, progress: p });
    }
    try {
      return await authorized(() => peer.callTool({ name, arguments: args, _meta: meta }, options));
    } finally {
      calls.delete(id);
    }
  },
  async cancel({ call, reason }) {
    calls.get(call).abort(reason);
    return {};
  },
  prompts: () => client.listPrompts(),
  prompt: ({ name, arguments: args }) => client.getPrompt({ name, arguments: args }),
  resources: () => client.listResources(),
  templates: () => client.listResourceTemplates(),
  read: ({ uri }) => client.readResource({ uri }),
  complete: ({ ref, argument, context }) => client.complete({ ref, argument, context: context && { arguments: context } }),
  async level({ level }) {
    if (!peer.modern()) {
      return client.setLoggingLevel(level);
    }
    meta = { [peer.logLevelKey]: level };
    return {};
  },
  async watch() {
    return peer.modern() ? listen('lists', { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }) : {};
  },
  subscribe: ({ uri }) => peer.modern() ? listen(uri, { resourceSubscriptions: [uri] }) : client.subscribeResource({ uri }),
  async unsubscribe({ uri }) {
    if (!peer.modern()) {
      return client.unsubscribeResource({ uri });
    }
    await listening.get(uri).close();
    return {};
  },
  ping: () => client.ping(),
  async answer({ action, content }) {
    answer = { action, content };
    answered();
    return {};
  },
  async roots(command) {
    roots = command.roots;
    if (!peer.modern()) {
      await client.sendRootsListChanged();
    }
    return {};
  },
  async end() {
    await transport.terminateSession?.();
    await client.close();
    return {};
  },
};

const running = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const work = commands[command.op](command).then(
    result => say({ id: command.id, result }),
    error => say({ id: command.id, error: describe(error) }),
  );
  running.add(work);
  work.finally(() => running.delete(work));
  if (command.op === 'end') {
    break;
  }
}
await Promise.all(running);
process.exit(0);
