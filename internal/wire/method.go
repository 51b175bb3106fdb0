package wire

import "github.com/vitrine-mcp/vitrine/mcp"

// A method is one that the protocol knows, with the member of params that names its
// target (see [mcp.NameMember]).
type method struct{ name, target string }

// methods holds them by their names. It is never written to.
var methods = func() map[string]method {
	m := map[string]method{}
	for _, name := range mcp.Methods() {
		m[name] = method{name, mcp.NameMember(name)}
	}
	return m
}()

// internMethod returns b as a method, without allocating for the methods of the
// protocol, whether Vitrine implements them or not.
func internMethod(b []byte) method {
	if m, ok := methods[string(b)]; ok {
		return m
	}
	return method{name: string(b)}
}
