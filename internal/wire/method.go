package wire

import "github.com/vitrine-mcp/vitrine/mcp"

// methods holds the names that the protocol knows. It is never written to.
var methods = func() map[string]string {
	m := map[string]string{}
	for _, name := range mcp.Methods() {
		m[name] = name
	}
	return m
}()

// internMethod returns b as a string, without allocating for the methods of the
// protocol, whether Vitrine implements them or not.
func internMethod(b []byte) string {
	if name, ok := methods[string(b)]; ok {
		return name
	}
	return string(b)
}
