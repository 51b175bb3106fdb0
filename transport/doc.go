// Package transport turns bytes into messages and back, over stdio and in-memory pipes. Each
// serves modern and legacy clients at the same time; the era is chosen for every request
// (specification: "Versioning", dual-era servers). The package knows no feature: messages go
// to the session core, which writes its answers through the sinks of this package. It also
// says what an error of a write means, for these transports and for Streamable HTTP.
package transport
