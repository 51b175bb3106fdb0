// Package transport turns bytes into messages and back: Streamable HTTP, stdio
// and in-memory pipes. Each serves modern and legacy clients at the same time;
// the era is chosen for every request (specification: "Versioning", dual-era
// servers). The package knows no feature: messages go to the session core, which
// writes its answers through the sinks of this package.
package transport
