# Calls the server at $URL in both eras, for helm test. Needs curl. With $PROTECTED it has no token, and
# must be refused.
set -eu

post() {
	curl -fsS --max-time 10 ${OPTIONS:-} -H 'Content-Type: application/json' \
		-H 'Accept: application/json, text/event-stream' "$@" "$URL"
}

if [ -n "${PROTECTED:-}" ]; then
	echo "without a token: 401"
	curl -sS --max-time 10 ${OPTIONS:-} -D - -o /dev/null -H 'Content-Type: application/json' \
		-H 'Accept: application/json, text/event-stream' -d '{}' "$URL" | tr -d '\r' |
		grep -i '^www-authenticate: .*resource_metadata='
	exit
fi

echo "modern: tools/list"
post -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' -d '{
	"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientInfo": {"name": "helm-test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": {}}}}' | grep -q '"tools"'

echo "legacy: initialize"
session=$(post -o /dev/null -w '%header{mcp-session-id}' -d '{
	"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
		"protocolVersion": "2025-11-25", "capabilities": {},
		"clientInfo": {"name": "helm-test", "version": "1"}}}')
follow() { post -H "Mcp-Session-Id: $session" -H 'MCP-Protocol-Version: 2025-11-25' "$@"; }
follow -d '{"jsonrpc": "2.0", "method": "notifications/initialized"}'

# Each over a connection of its own: all must reach the replica that has the session.
for id in 2 3 4 5 6 7 8 9; do
	echo "legacy: tools/list, id $id"
	follow -d "{\"jsonrpc\": \"2.0\", \"id\": $id, \"method\": \"tools/list\"}" | grep -q '"tools"'
done
follow -X DELETE
