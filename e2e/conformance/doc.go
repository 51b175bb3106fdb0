// Package conformance runs the official conformance suite of MCP, which comes as an
// npm package, against cmd/everything: one process on one URL, for all revisions.
//
//	go test ./conformance                          what "make test-all" does
//	make conformance                               the same, with the table
//	go test ./conformance -v -artifacts            keep what the suite wrote, and say where
//
// It runs everything that the suite has for servers: the requirements of each revision,
// all scenarios of each revision, and scenarios without a revision, such as those of
// extensions. The suite itself fails only for requirements of a revision. Here every
// failure counts, in every scenario, every warning, and every check that reports that it
// has tested nothing. There is no list of expected failures. Checks that cannot apply to
// Vitrine are in rules_test.go, each with its reason, and in the table.
//
// The requirements run a second time, against three processes that share a store, behind an nginx that sends
// each request to the next one.
//
// "make tools" in the root of the repository installs the suite.
package conformance
