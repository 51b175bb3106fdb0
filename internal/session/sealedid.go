package session

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// SealSessions seals the ids of legacy HTTP sessions. Then a session is in its id: any server with the
// same keys serves it, also after a restart, and what a server has of it is only a local object. The
// cap of sessions, the idle time and the time for the handshake end that object, and not the session.
// adopted is called with each session that is opened from its id: its handshake has taken place, perhaps
// in another process. SealSessions must be called before the first message.
func (c *Core) SealSessions(ring seal.Ring, adopted func(*Session)) {
	c.adopted = adopted
	c.ids.Store(&ring)
}

// ReplaceKeys replaces the keys of [Core.SealSessions]. It may be called at any time. Sessions whose ids no
// key opens any more are unknown from now on, also those that this server has an object of.
func (c *Core) ReplaceKeys(ring seal.Ring) { c.ids.Store(&ring) }

// SealsSessions reports whether the ids of sessions are sealed.
func (c *Core) SealsSessions() bool { return c.ids.Load() != nil }

// A sealedID is what a sealed Mcp-Session-Id contains: all that a replica needs to serve a legacy
// HTTP session that another one has opened.
type sealedID struct {
	id            string // of the session, in logs and on pages
	created, ends time.Time
	owner         owner
	peer          *Peer
}

// An owner is the identity of a principal, in digests: its parts are no longer than a header allows.
type owner struct{ issuer, subject, tenant digest }

type digest [12]byte

func ownerOf(p *auth.Principal) (o owner) {
	if p == nil {
		return o
	}
	return owner{digestOf(p.Issuer), digestOf(p.Subject), digestOf(p.Tenant)}
}

func digestOf(text string) digest {
	sum := sha256.Sum256([]byte(text))
	return digest(sum[:len(digest{})])
}

// sealedFormat is the first byte of the content. A replica with an older release does not know newer
// formats, and answers 404.
const sealedFormat = 1

// maxSealedExtensions is how many bytes the names of extensions may take. More are left out, so that
// the id has less than 1 KB whatever the client says.
const maxSealedExtensions = 256

// A capabilityBit is a capability of clients that has a bit in a sealed id.
type capabilityBit struct {
	has func(*mcp.ClientCapabilities) bool
	set func(*mcp.ClientCapabilities)
}

// capabilityBits are in the order of their bits. A bit never gets another meaning.
var capabilityBits = []capabilityBit{
	{func(c *mcp.ClientCapabilities) bool { return c.Roots != nil },
		func(c *mcp.ClientCapabilities) { made(&c.Roots) }},
	{func(c *mcp.ClientCapabilities) bool { return c.Roots != nil && c.Roots.ListChanged },
		func(c *mcp.ClientCapabilities) { made(&c.Roots).ListChanged = true }},
	{func(c *mcp.ClientCapabilities) bool { return c.Sampling != nil },
		func(c *mcp.ClientCapabilities) { made(&c.Sampling) }},
	{func(c *mcp.ClientCapabilities) bool { return c.Sampling != nil && c.Sampling.Context != nil },
		func(c *mcp.ClientCapabilities) { made(&made(&c.Sampling).Context) }},
	{func(c *mcp.ClientCapabilities) bool { return c.Sampling != nil && c.Sampling.Tools != nil },
		func(c *mcp.ClientCapabilities) { made(&made(&c.Sampling).Tools) }},
	{func(c *mcp.ClientCapabilities) bool { return c.Elicitation != nil },
		func(c *mcp.ClientCapabilities) { made(&c.Elicitation) }},
	{func(c *mcp.ClientCapabilities) bool { return c.Elicitation != nil && c.Elicitation.Form != nil },
		func(c *mcp.ClientCapabilities) { made(&made(&c.Elicitation).Form) }},
	{func(c *mcp.ClientCapabilities) bool { return c.Elicitation != nil && c.Elicitation.URL != nil },
		func(c *mcp.ClientCapabilities) { made(&made(&c.Elicitation).URL) }},
}

// made returns what a field points to, which it makes if there is nothing.
func made[T any](field **T) *T {
	if *field == nil {
		*field = new(T)
	}
	return *field
}

// append appends the content of the id. Texts are cut, so that it is never refused for its length.
func (d *sealedID) append(dst []byte) []byte {
	dst = append(dst, sealedFormat)
	dst = appendShort(dst, d.id)
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.created.Unix()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.ends.Unix()))
	dst = append(append(append(dst, d.owner.issuer[:]...), d.owner.subject[:]...), d.owner.tenant[:]...)
	dst = appendShort(dst, string(d.peer.Version))
	dst = appendShort(dst, logline.Printable(d.peer.Client.Name, maxClientText))
	dst = appendShort(dst, logline.Printable(d.peer.Client.Version, maxClientText))
	var bits uint16
	for i, b := range capabilityBits {
		if b.has(&d.peer.Capabilities) {
			bits |= 1 << i
		}
	}
	dst = binary.BigEndian.AppendUint16(dst, bits)
	room := maxSealedExtensions
	for _, name := range sortedNames(d.peer.Capabilities.Extensions) {
		if len(name) < room && len(name) <= math.MaxUint8 {
			dst = appendShort(dst, name)
			room -= len(name) + 1
		}
	}
	return dst
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendShort appends a text of at most 255 bytes.
func appendShort(dst []byte, text string) []byte {
	text = text[:min(len(text), math.MaxUint8)]
	return append(append(dst, byte(len(text))), text...)
}

// A shortReader reads what [sealedID.append] has written. After a fault it returns zero values.
type shortReader struct {
	rest []byte
	bad  bool
}

func (r *shortReader) take(n int) []byte {
	if len(r.rest) < n {
		r.bad, r.rest = true, nil
		return make([]byte, n)
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *shortReader) short() string { return string(r.take(int(r.take(1)[0]))) }

func (r *shortReader) time() time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(r.take(8))), 0)
}

// parseSealedID returns the content of an id, or false if another release has written it.
func parseSealedID(plain []byte) (d sealedID, ok bool) {
	r := shortReader{rest: plain}
	if r.take(1)[0] != sealedFormat {
		return d, false
	}
	d.id = r.short()
	d.created, d.ends = r.time(), r.time()
	d.owner = owner{digest(r.take(12)), digest(r.take(12)), digest(r.take(12))}
	d.peer = &Peer{Version: mcp.Version(r.short()), Client: mcp.Implementation{Name: r.short(), Version: r.short()}}
	bits := binary.BigEndian.Uint16(r.take(2))
	for i, b := range capabilityBits {
		if bits&(1<<i) != 0 {
			b.set(&d.peer.Capabilities)
		}
	}
	for len(r.rest) > 0 {
		if d.peer.Capabilities.Extensions == nil {
			d.peer.Capabilities.Extensions = map[string]any{}
		}
		d.peer.Capabilities.Extensions[r.short()] = map[string]any{}
	}
	return d, !r.bad && d.id != ""
}

// maxSealedID bounds the texts that are opened, in bytes. Those of this server are shorter.
const maxSealedID = 1024

// openID returns the content of the id of a message, or false if this server cannot have sealed it.
func openID(ring seal.Ring, text string) (d sealedID, ok bool) {
	if len(text) > maxSealedID {
		return d, false
	}
	plain, fault := ring.Open(text)
	if fault != "" {
		return d, false
	}
	return parseSealedID(plain)
}
