package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// backends are the processes behind the servers: Redis, and the HTTP service of a shop. Their CPU time
// belongs to no server.
type backends struct {
	redis     *exec.Cmd
	dir       string   // of Redis
	service   *process // nil if there is none
	addresses backendAddresses
}

// backendAddresses tell a server where its backends are.
type backendAddresses struct{ redis, service string }

func (a backendAddresses) env() []string {
	return []string{servers.RedisEnv + "=" + a.redis, servers.ShopServiceEnv + "=" + a.service}
}

// startRedis starts Redis. The program redis-server must be installed.
func startRedis() (*backends, error) {
	b := &backends{}
	if err := b.startRedis(); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// startBackends starts Redis and the service of a shop.
func startBackends(exe string) (*backends, error) {
	b, err := startRedis()
	if err != nil {
		return nil, err
	}
	kind, err := servers.Find(servers.ShopService)
	if err != nil {
		return nil, errors.Join(err, b.stop())
	}
	if b.service, err = start(exe, kind, scenario{backends: b.addresses}, ""); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	b.addresses.service = "http://" + b.service.addr + servers.Modern
	return b, nil
}

func (b *backends) startRedis() (err error) {
	if b.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	if b.addresses.redis, err = freeAddress(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(b.addresses.redis)
	if err != nil {
		return err
	}
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", b.dir, "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		return err
	}
	b.redis = cmd
	return awaitListener("redis-server", b.addresses.redis)
}

// freeAddress returns an address with a port at which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// awaitListener waits until a program listens.
func awaitListener(program, addr string) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not listen: %w", program, err)
		}
	}
}

// stop ends the backends that were started.
func (b *backends) stop() (err error) {
	if b.service != nil {
		err = b.service.stop()
	}
	if b.redis != nil {
		_ = b.redis.Process.Kill()
		_ = b.redis.Wait() // it was killed
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}
