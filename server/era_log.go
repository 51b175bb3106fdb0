package server

import (
	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// wantsLog reports whether the client wants messages of a severity: a modern one
// with this request, a legacy one in its session.
func (c *Call) wantsLog(severity int) bool {
	least := mcp.LoggingLevel("")
	if c.Peer.Era == mcp.Modern {
		least = logLevelOf(&c.core.Meta)
	} else if sess := c.core.Session(); sess != nil {
		if least = sess.LogLevel(); least == "" {
			least = mcp.LogInfo
		}
	}
	return least != "" && severity >= least.Severity()
}

// logLevelOf returns the level in the metadata of a request; "" if there is none.
func logLevelOf(meta *wire.Meta) (level mcp.LoggingLevel) {
	_ = json.Unmarshal(meta.LogLevel, &level) // what is no string is no level
	return level
}

// checkLogLevel refuses a modern request that wants messages of a level that does not
// exist.
func checkLogLevel(in *session.Inbound) *mcp.Error {
	if in.Meta.LogLevel == nil || logLevelOf(&in.Meta).Severity() >= 0 {
		return nil
	}
	return badLogLevel("params._meta." + mcp.MetaLogLevel)
}
