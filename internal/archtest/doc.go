// Package archtest holds the house rules that a test can check, and nothing else: its
// tests fail when the code breaks one.
//
// The import rule. Every package belongs to an area, every area is on a layer, and
// an area imports only areas on lower layers:
//
//	6  cmd, examples, deploy
//	5  service
//	4  server
//	3  middleware, dashboards, internal/framed, internal/streamable, internal/adapt
//	2  transport, telemetry, telemetry/otlp, internal/observe
//	1  auth, store, internal/session, internal/report
//	0  mcp, internal/wire
//
// Everything below an area's folder belongs to that area, and within an area imports are
// free. Exceptions are few and stand in the table of archtest_test.go: some areas import one
// on their own layer, such as internal/wire mcp and internal/observe telemetry; some import
// few, as auth, store, middleware and dashboards do; and some, such as dashboards, are
// imported by no other. A package in no area
// is a failure too, so that nobody forgets to place one: add its area to the table in
// archtest_test.go, here, and in docs/design.md.
//
// Tests may import, besides what their area may, other areas on their own layer and
// internal/needs. Production code never imports internal/needs or internal/archtest.
//
// The library rules. Only telemetry and its bridge internal/observe import OpenTelemetry and
// Prometheus packages, and server/servertest and internal/adapttest, which show spans and
// metrics to tests. Examples are a user's code and may;
// internal/session does not even reach them, or net/http, through others; mcp and
// internal/wire do no I/O. These hold for production code and not for tests. Every
// module that code or tests import, and every one that go.mod requires, is on a list.
//
// The rules of what users see. In every package that users can import, no exported
// identifier has a type of an internal package in its signature, and no exported type is an
// alias of one or is defined by one: users can write down each type that they meet, and go
// doc shows its fields and methods. mcp, server and telemetry have a bound on how many types
// and functions they export.
//
// The file rules, for all modules of the repository: no Go file over 450 lines, no function
// over 60 outside tests except tables, and no notes to come back later. In the packages of
// direction_test.go fewer than a tenth of the references between files run back up.
package archtest
