package share

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A Key says who a share belongs to: a principal, or an address where there is no principal, or
// a connection where there is no address either. The zero value stands for all callers of whom
// nothing is known. Keys can be compared, and making one allocates nothing.
type Key struct {
	issuer, subject, tenant string
	addr                    [16]byte
	conn                    uint64
}

// KeyOf returns the key of a caller: that of its principal, or of its address if the principal
// is nil. An IPv4 address has a key of its own, also if it is written as an IPv6 address; all
// addresses of an IPv6 network of 64 bits are one caller, because one subscriber has them all.
func KeyOf(p *auth.Principal, addr netip.Addr) Key {
	if p != nil {
		return Key{issuer: p.Issuer, subject: p.Subject, tenant: p.Tenant}
	}
	if !addr.IsValid() {
		return Key{}
	}
	k := Key{addr: addr.As16()}
	if addr = addr.Unmap(); addr.Is6() {
		clear(k.addr[8:])
		if k == (Key{}) {
			k.addr = netip.IPv6Loopback().As16() // its network is all zeros, as a caller of whom nothing is known
		}
	}
	return k
}

// AddrOf returns the address in host:port, or in an address without a port; the zero value if
// there is none. It does not look at the port. The plain version is netip.ParseAddrPort, which reads it
// and takes 1 % more instructions for a whole call (BenchmarkCost of package server).
func AddrOf(remote string) netip.Addr {
	if remote == "" {
		return netip.Addr{} // to parse it would allocate an error
	}
	host := remote
	if colon := strings.IndexByte(remote, ':'); colon >= 0 && colon == strings.LastIndexByte(remote, ':') {
		host = remote[:colon]
	} else if remote[0] == '[' {
		host, _, _ = strings.Cut(remote[1:], "]")
	}
	addr, _ := netip.ParseAddr(host) // the zero value if it is none
	return addr
}

var connections atomic.Uint64

// KeyOfConnection returns the key of a connection that has neither a principal nor an address,
// such as stdio. Each call returns another one.
func KeyOfConnection() Key { return Key{conn: connections.Add(1)} }

// Fingerprint returns a number that is the same for a key in all processes, but for keys of connections. Nobody can
// choose a principal that has the number of another one.
func (k Key) Fingerprint() uint64 {
	var b []byte
	for _, text := range []string{k.issuer, k.subject, k.tenant} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(append(b, k.addr[:]...), k.conn))
	return binary.BigEndian.Uint64(sum[:])
}

// String returns the key in a readable form, for operators.
func (k Key) String() string {
	addr := netip.AddrFrom16(k.addr)
	switch {
	case k.subject != "":
		return (&auth.Principal{Issuer: k.issuer, Subject: k.subject, Tenant: k.tenant}).String()
	case k.conn != 0:
		return fmt.Sprintf("connection %d", k.conn)
	case k.addr == [16]byte{}:
		return "unknown"
	case addr.Is4In6(), addr.IsLoopback():
		return addr.Unmap().String()
	}
	return netip.PrefixFrom(addr, 64).String()
}
