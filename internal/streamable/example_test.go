package streamable_test

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

func ExampleDecodeHeaderValue() {
	fmt.Println(streamable.DecodeHeaderValue("plain"))
	fmt.Println(streamable.DecodeHeaderValue("=?base64?Z3LDvMOfZQ==?="))
	// Output:
	// plain true
	// grüße true
}
