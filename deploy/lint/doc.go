// Package lint has the tests of those files in deploy that are for a machine and not for a cluster:
// the Dockerfile, the unit of systemd, and Envoy's configuration. The tests parse these files with
// the parsers of the programs that read them, and run everything that needs no container engine,
// systemd or Envoy. It is a module of its own because of these parsers.
package lint
