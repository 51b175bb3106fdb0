// Package streamable serves MCP over Streamable HTTP: it turns HTTP exchanges into messages
// for the session core, and the core's answers into responses and event streams. One endpoint
// serves modern and legacy clients at the same time; the era is chosen for every request
// (specification: "Versioning", dual-era servers). The package knows no feature.
package streamable
