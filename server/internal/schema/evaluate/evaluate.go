// Package evaluate validates JSON text against a compiled JSON Schema at a bounded cost, whatever the
// schema and the text are.
//
// The compiler is github.com/santhosh-tekuri/jsonschema/v6. Its own evaluation takes exponential time
// for alternatives in a recursive schema, collects faults without bound, and needs a tree of Go values
// that is up to a hundred times as large as the text. This package evaluates what the compiler has
// compiled, with the same verdicts:
//
//   - A validation has a number of steps ([Program.Run]). It ends when they are used up, and soon after
//     its context is done.
//   - A schema that is reached in several ways is applied to a value once: the verdict is remembered.
//   - The text is not decoded. A document has 12 bytes for each value, and the text of each string with escapes.
//   - The first pass finds the verdict alone. Only an invalid value is looked at again for its faults,
//     of which the first 32 are kept.
//
// A step is about one schema applied to one value, or 16 bytes compared, or about 10 ns.
package evaluate
