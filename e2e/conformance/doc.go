// Package conformance runs the official conformance suite of MCP, which comes as an
// npm package, against cmd/everything: one process on one URL, for all revisions.
//
//	go test ./conformance                          what "make test-all" does
//	make conformance                               the same, with the table
//	go test ./conformance -v -artifacts            keep what the suite wrote, and say where
//
// It asks for everything that the suite has for servers: what each revision requires,
// all scenarios of each revision, and those that belong to no revision, such as the
// ones of extensions. The suite itself fails only on what a revision requires; here
// every failure counts, in every scenario, every warning, and every check that says
// that it has tested nothing. There is no list of expected failures. What cannot apply
// to a server of ours is in rules_test.go, each with its reason, and in the table.
//
// "make tools" in the root of the repository installs the suite.
package conformance
