//go:build !unix

package main

import "net"

// A poller is a plain connection on this system.
type poller struct{ net.Conn }

func newPoller(c net.Conn) (*poller, error) { return &poller{c}, nil }

// poll does nothing: reads sleep.
func (*poller) poll(bool) {}
