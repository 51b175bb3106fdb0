// What an official client needs to get access tokens without a person: a place for what
// it must remember, and a browser that follows the authorization server to the end.

// The browser does not visit this address, but reads the answer from its query.
const redirect = 'http://127.0.0.1:1/callback';

// An Applicant is an OAuthClientProvider of both official packages.
export class Applicant {
  redirectUrl = redirect;
  clientMetadata = {
    client_name: 'e2e', application_type: 'native', redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'], token_endpoint_auth_method: 'none',
  };
  #kept = {};

  // With a URL of its metadata, it registers only where that is not understood.
  constructor(clientMetadataUrl) { this.clientMetadataUrl = clientMetadataUrl; }

  clientInformation() { return this.#kept.client; }
  saveClientInformation(client) { this.#kept.client = client; }
  tokens() { return this.#kept.tokens; }
  saveTokens(tokens) { this.#kept.tokens = tokens; }
  codeVerifier() { return this.#kept.verifier; }
  saveCodeVerifier(verifier) { this.#kept.verifier = verifier; }
  discoveryState() { return this.#kept.discovery; }
  saveDiscoveryState(discovery) { this.#kept.discovery = discovery; }
  invalidateCredentials(scope) {
    const forgotten = { client: ['client'], tokens: ['tokens'], verifier: ['verifier'], discovery: ['discovery'], all: Object.keys(this.#kept) };
    for (const name of forgotten[scope]) {
      delete this.#kept[name];
    }
  }

  async redirectToAuthorization(url) { this.#kept.callback = await browse(url); }
  callback() { return this.#kept.callback; }
}

// browse is a browser without a history: it follows redirects with the cookies of this
// visit, and returns the parameters that the client would be called back with.
async function browse(url) {
  const cookies = new Map();
  for (let steps = 0; steps < 20; steps++) {
    if (String(url).startsWith(redirect)) {
      return new URL(url).searchParams;
    }
    const header = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { redirect: 'manual', headers: { cookie: header } });
    for (const cookie of response.headers.getSetCookie()) {
      const [pair] = cookie.split(';');
      const at = pair.indexOf('=');
      cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
    const location = response.headers.get('location');
    if (!location) {
      throw new Error(`${url} answers with status ${response.status}: ${await response.text()}`);
    }
    url = new URL(location, url);
  }
  throw new Error('the authorization server redirects without end');
}
