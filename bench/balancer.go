package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A balancer is an nginx that sends each request to the next one of several servers.
type balancer struct {
	cmd    *exec.Cmd
	dir    string
	addr   string
	stderr bytes.Buffer
}

// nginxConf has one process, so that its end is the end of all of nginx, and keeps its connections.
const nginxConf = `daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	keepalive_requests 1000000000;
	upstream replicas {
		%s
		keepalive 256;
		keepalive_requests 1000000000;
	}
	server {
		listen %s;
		location / {
			proxy_pass http://replicas;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_next_upstream off;
		}
	}
}
`

// startBalancer starts an nginx in front of the servers. The program nginx must be installed.
func startBalancer(addrs []string) (*balancer, error) {
	b := &balancer{}
	if err := b.start(addrs); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

func (b *balancer) start(addrs []string) (err error) {
	if b.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	if b.addr, err = freeAddress(); err != nil {
		return err
	}
	servers := "server " + strings.Join(addrs, ";\n\t\tserver ") + ";"
	conf := filepath.Join(b.dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, servers, b.addr), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("nginx", "-p", b.dir, "-c", conf, "-e", "stderr")
	cmd.Stderr = &b.stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	b.cmd = cmd
	return awaitListener("nginx", b.addr)
}

// stop ends nginx, and returns its warnings.
func (b *balancer) stop() (err error) {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait() // it was killed
		if b.stderr.Len() > 0 {
			err = fmt.Errorf("nginx: %s", b.stderr.Bytes())
		}
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}
