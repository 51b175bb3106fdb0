package mcp

// The methods with which a client learns what the server is and can do.
const (
	MethodServerDiscover = "server/discover" // modern
	MethodInitialize     = "initialize"      // legacy
	MethodPing           = "ping"            // legacy, both directions
)

// DiscoverResult is the result of server/discover (modern).
type DiscoverResult struct {
	SupportedVersions []Version          `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	Instructions      string             `json:"instructions,omitempty"`
	ResultMeta
	CacheHint
}

// InitializeParams is the params member of initialize (legacy).
type InitializeParams struct {
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
}

// InitializeResult is the result of initialize (legacy).
type InitializeResult struct {
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	Instructions    string             `json:"instructions,omitempty"`
	ResultMeta
}

// UnsupportedVersionData is the data of a [CodeUnsupportedVersion] error.
type UnsupportedVersionData struct {
	Supported []Version `json:"supported"`
	Requested string    `json:"requested"`
}
