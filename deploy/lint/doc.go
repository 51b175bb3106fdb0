// Package lint holds the tests of what is in deploy for a machine and not for a cluster:
// the Dockerfile, the unit of systemd, and Envoy's configuration. They parse these files
// with the parsers of those who read them, and run what can be run without a container
// engine, systemd or Envoy. It is a module of its own because of these parsers.
package lint
