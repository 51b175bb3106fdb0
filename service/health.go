package service

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthPages are the pages for health checks: whether the process lives, and whether it is ready
// for requests.
var healthPages = []string{"livez", "readyz"}

// healthPatience is how long an answer may take. It should be shorter than the timeout of the
// prober, whose error says less.
const healthPatience = 5 * time.Second

// checkHealth asks the admin listener of another process and prints its answer. It is for
// containers without other programs.
func (o *options) checkHealth(adminAddr, page string) error {
	host, port, err := net.SplitHostPort(adminAddr)
	if err != nil || port == "0" {
		return fmt.Errorf("service: health check: nobody can be asked at %q (--%s or %s says where the process has its admin listener)",
			adminAddr, flagAdminAddr, o.env.name(flagAdminAddr))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // not localhost: a container may not resolve names
	}
	client := &http.Client{Timeout: healthPatience, Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy
	resp, err := client.Get("http://" + net.JoinHostPort(host, port) + "/" + page)
	if err != nil {
		return fmt.Errorf("service: health check: %w", err)
	}
	defer resp.Body.Close()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	switch {
	case err != nil:
		return fmt.Errorf("service: health check: %w", err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("service: health check: %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	_, err = o.stdout.Write(text)
	return err
}
