// An authorization server on a free port of this machine, made of the package
// oidc-provider: access tokens are JWTs (RFC 9068) for one resource (RFC 8707), clients
// register themselves (RFC 7591) or are known by the URL of their metadata, and code
// flows need PKCE.
//
//   authorization_server.mjs [opaque]     opaque access tokens instead of JWTs
//
// Everybody is logged in as "ann", who gives a client no more than demo:read the first
// time that it asks, and from then on whatever it asks for.
//
// Each line of input is a command and each line of output is what has happened, both JSON:
//
//   {"event":"listening","issuer":"http://127.0.0.1:1234"}
//   {"event":"requested","method":"GET","path":"/auth","query":{...}}
//   {"id":1,"op":"rotate"}           signs with a new key, and publishes the others too
//   {"id":2,"op":"replace"}          signs with a new key, and publishes no other
//   {"id":3,"op":"forge","resource":"http://127.0.0.1:2345/mcp"}
//                                    makes a token with a key that nobody has published
//   {"id":4,"op":"sync"}             does nothing
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

const [format = 'jwt'] = process.argv.slice(2);
const scopes = ['demo:read', 'demo:write', 'demo:admin'];

console.info = console.error; // the package's notices are no events

function say(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

function newKey() {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'ES256' };
}

// The metadata of the client that is known by their URL. No request leaves the machine.
const documentURL = 'https://client.example.com/client.json';
const documentOfClient = {
  client_id: documentURL, client_name: 'e2e', application_type: 'native', redirect_uris: ['http://127.0.0.1:1/callback'],
  grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none',
};

const known = new Set(); // the clients that ann has met

// consent returns the grant with what ann gives a client.
async function consent(provider, { params, prompt, session, grantId }) {
  const grant = grantId ? await provider.Grant.find(grantId) : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) {
    grant.addOIDCScope(prompt.details.missingOIDCScope.join(' '));
  }
  for (const [resource, asked] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    for (const scope of asked) {
      if (scope === 'demo:read' || known.has(params.client_id)) {
        grant.addResourceScope(resource, scope);
      } else {
        grant.rejectResourceScope(resource, scope);
      }
    }
  }
  known.add(params.client_id);
  return grant.save();
}

function newProvider(issuer, keys) {
  return new Provider(issuer, {
    jwks: { keys },
    cookies: { keys: ['of no importance'] },
    scopes: ['openid', 'offline_access', ...scopes],
    clients: [
      { client_id: 'job', client_secret: 'secret of job', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
      { client_id: 'vitrine', client_secret: 'secret of vitrine', grant_types: [], redirect_uris: [], response_types: [] },
    ],
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    pkce: { required: () => true },
    fetch: async url => String(url) === documentURL ? Response.json(documentOfClient) : new Response(null, { status: 404 }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    ttl: { AccessToken: 600, ClientCredentials: 600, Grant: 600, Interaction: 600, Session: 600, RefreshToken: 600, IdToken: 600 },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === 'vitrine' },
      registration: { enabled: true },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
      resourceIndicators: {
        enabled: true,
        defaultResource: (_, client, resources) => resources,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          scope: scopes.join(' '), audience: resource, accessTokenFormat: format, jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  });
}

let keys = [newKey()];
let provider;

const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://127.0.0.1');
  say({ event: 'requested', method: request.method, path: pathname, query: Object.fromEntries(searchParams) });
  const current = provider;
  if (!pathname.startsWith('/interaction/')) {
    current.callback()(request, response);
    return;
  }
  try {
    const interaction = await current.interactionDetails(request, response);
    const result = interaction.prompt.name === 'login' ? { login: { accountId: 'ann' } } : { consent: { grantId: await consent(current, interaction) } };
    await current.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
});
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
provider = newProvider(issuer, keys);
provider.on('server_error', (_, error) => console.error(error));
say({ event: 'listening', issuer });

function changeKeys(changed) {
  keys = changed;
  provider = newProvider(issuer, keys);
  return {};
}

const commands = {
  rotate: () => changeKeys([newKey(), ...keys]),
  replace: () => changeKeys([newKey()]),
  sync: () => ({}),
  forge({ resource }) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const now = Math.floor(Date.now() / 1000);
    const encode = part => Buffer.from(JSON.stringify(part)).toString('base64url');
    const signed = encode({ alg: 'ES256', typ: 'at+jwt', kid: randomUUID() }) + '.' + encode({
      iss: issuer, sub: 'eve', aud: resource, iat: now, exp: now + 600, jti: randomUUID(), client_id: 'job', scope: scopes.join(' '),
    });
    const signature = sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    return { token: `${signed}.${signature.toString('base64url')}` };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  say({ id: command.id, result: commands[command.op](command) });
}
process.exit(0);
