// Package mcp holds the nouns of the Model Context Protocol: messages,
// content, capabilities, error codes, protocol versions, request metadata, and
// the closed vocabularies in which Vitrine says why a request was cancelled,
// why an answer was dropped and why a message was refused.
//
// The package does no I/O and starts no goroutine. Every type is a plain value:
// copy it freely, and guard it yourself if goroutines share it.
//
// Two families of protocol versions are served at the same time. Modern
// versions (2026-07-28 and later) have no handshake and no sessions: each
// request carries its own metadata. Legacy versions (2024-11-05 to 2025-11-25)
// begin with initialize and live in a session. See [Era].
package mcp
