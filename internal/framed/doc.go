// Package framed connects a [transport.Conn], which carries whole frames, to the session core: it
// reads and decodes the frames of the peer, and is the sink through which the core's writer sends
// frames. It serves modern and legacy clients at the same time; the era is chosen for every
// request (specification: "Versioning", dual-era servers).
package framed
