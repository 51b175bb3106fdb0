// Package forwarded finds the address of a caller whose requests come through proxies.
package forwarded

import (
	"fmt"
	"iter"
	"net/netip"
	"strings"
)

// Proxies are the networks of the proxies whose word on the address of a caller is taken. The
// zero value trusts nobody. Proxies are immutable and safe for concurrent use.
type Proxies struct{ networks []netip.Prefix }

// Parse reads networks such as 10.0.0.0/8 and single addresses such as 2001:db8::1. It returns an
// error for an entry that is neither, and for a network of all addresses.
func Parse(entries []string) (p Proxies, err error) {
	for _, entry := range entries {
		network, err := parseNetwork(entry)
		if err != nil {
			return Proxies{}, err
		}
		p.networks = append(p.networks, network)
	}
	return p, nil
}

func parseNetwork(entry string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(entry)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.64q is no network of proxies: want one such as 10.0.0.0/8, or an address", entry)
	}
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	if network.Bits() == 0 {
		return netip.Prefix{}, fmt.Errorf("%q has all addresses: every caller could choose its own", entry)
	}
	return network.Masked(), nil
}

// Networks returns the networks. They must not be changed.
func (p Proxies) Networks() []netip.Prefix { return p.networks }

// Via returns the Via headers of a request that came through a trusted proxy, and the addresses that
// its headers say it was forwarded for. Both are as they were sent. They are empty if the peer, the
// other end of the connection as host:port, is not trusted.
func (p Proxies) Via(peer string, header map[string][]string) (via, addresses string) {
	if len(p.networks) == 0 {
		return "", ""
	}
	if from := parseAddr(peer); !from.IsValid() || !p.trust(from) {
		return "", ""
	}
	chain := header[headerForwardedFor]
	if len(chain) == 0 {
		chain = header[headerForwarded]
	}
	return strings.Join(header[headerVia], ", "), strings.Join(chain, ", ")
}

func (p Proxies) trust(addr netip.Addr) bool {
	for _, network := range p.networks {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// The headers in their canonical form.
const (
	headerForwardedFor = "X-Forwarded-For"
	headerForwarded    = "Forwarded" // RFC 7239
	headerVia          = "Via"
)

// Caller returns the address of the caller of an HTTP request. peer is the other end of the
// connection, as host:port.
//
// If the peer is a trusted proxy, its header says where the request came from, and the last
// address of the header that is no trusted proxy is the caller's; it has no port. The caller itself
// may have sent what stands before it. A header that says nothing of use, or two headers that
// contradict each other, leave the nearest address that is known, at worst the peer's.
//
// If the peer is not trusted it is the caller itself. Then ignored reports that it has sent such a
// header.
func (p Proxies) Caller(peer string, header map[string][]string) (addr string, ignored bool) {
	forwardedFor, forwarded := header[headerForwardedFor], header[headerForwarded]
	if len(forwardedFor) == 0 && len(forwarded) == 0 {
		return peer, false
	}
	from := parseAddr(peer)
	if !from.IsValid() || !p.trust(from) {
		return peer, true
	}
	caller := from
	switch {
	case len(forwarded) == 0:
		caller = p.last(from, addresses(forwardedFor))
	case len(forwardedFor) == 0:
		caller = p.last(from, nodes(forwarded))
	default: // a proxy that knows one of them passes the other on as the caller has sent it
		if a, b := p.last(from, addresses(forwardedFor)), p.last(from, nodes(forwarded)); a == b {
			caller = a
		}
	}
	if caller == from {
		return peer, false
	}
	return caller.String(), false
}

// maxHops is how many trusted proxies a request can come through.
const maxHops = 16

// last follows a chain of addresses, the last one first, to the first that is no trusted proxy.
// from is the peer.
func (p Proxies) last(from netip.Addr, chain iter.Seq[netip.Addr]) netip.Addr {
	hops := 0
	for addr := range chain {
		if hops++; !addr.IsValid() || hops > maxHops {
			break
		}
		if from = addr; !p.trust(addr) {
			break
		}
	}
	return from
}

// addresses yields the addresses of X-Forwarded-For, the last one first. What is no address is the
// zero value.
func addresses(lines []string) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for i := len(lines) - 1; i >= 0; i-- {
			for rest, more := lines[i], true; more; {
				var element string
				comma := strings.LastIndexByte(rest, ',')
				if more = comma >= 0; more {
					rest, element = rest[:comma], rest[comma+1:]
				} else {
					element = rest
				}
				if !yield(parseAddr(strings.Trim(element, " \t"))) {
					return
				}
			}
		}
	}
}

// maxAddr is the length of the longest address with its port.
const maxAddr = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535")

// parseAddr reads an address, with a port or without; IPv6 may stand in brackets. An IPv4 address
// that is mapped to IPv6 becomes IPv4. A zone is refused, because its text is the sender's.
func parseAddr(text string) netip.Addr {
	if len(text) > maxAddr || strings.IndexByte(text, '%') >= 0 {
		return netip.Addr{}
	}
	if strings.HasSuffix(text, "]") {
		inner, found := strings.CutPrefix(text[:len(text)-1], "[")
		if addr, err := netip.ParseAddr(inner); found && err == nil && addr.Is6() {
			return addr.Unmap()
		}
		return netip.Addr{}
	}
	if strings.Count(text, ":") == 1 || strings.HasPrefix(text, "[") {
		withPort, _ := netip.ParseAddrPort(text) // the zero value if it is none
		return withPort.Addr().Unmap()
	}
	addr, _ := netip.ParseAddr(text)
	return addr.Unmap()
}
