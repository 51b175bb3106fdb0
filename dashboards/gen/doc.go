// Command gen makes the dashboards for Grafana and the rules for Prometheus, from the
// catalogue of metrics in telemetry and the objectives of a configuration.
//
//	go run github.com/vitrine-mcp/vitrine/dashboards/gen@latest -tools http://127.0.0.1:8080/mcp >objectives.yaml
//	go run github.com/vitrine-mcp/vitrine/dashboards/gen@latest -config objectives.yaml -out monitoring
//
// The files in dashboards/ are those of the default configuration. "go test ./dashboards/... -update"
// writes them.
package main
