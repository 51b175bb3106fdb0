// Package archtest holds the house rules that a test can check, and nothing else: its
// tests fail when the code breaks one.
//
// The import rule. Every package belongs to a room, every room is on a floor, and a
// room imports only rooms on lower floors:
//
//	6  cmd, examples, deploy
//	5  service
//	4  server
//	3  middleware, dashboards, internal/framed, internal/streamable
//	2  transport, telemetry
//	1  internal/session, auth, store
//	0  mcp, internal/wire
//
// Everything below a room's folder belongs to that room, and within a room imports are
// free. Exceptions are few: internal/wire imports mcp on its own floor, and
// internal/session auth and store; auth and store import mcp alone, dashboards imports
// telemetry alone, and no other room imports dashboards. A package in no room
// is a failure too, so that nobody forgets to place one: add its room to the table in
// archtest_test.go, here, and in docs/design.md.
//
// Tests may import, besides what their room may, other rooms on their own floor and
// internal/needs. Production code never imports internal/needs or internal/archtest.
//
// The library rules. Only telemetry imports OpenTelemetry and Prometheus packages, and
// server/servertest, which shows spans and metrics to tests;
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
// The file rules, for all modules of the repository: no Go file over 600 lines (tests:
// 900), and no notes to come back later.
package archtest
