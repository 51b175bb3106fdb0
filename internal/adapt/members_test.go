package adapt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Messages that decoders may read in different ways are not read ahead.
func TestAgreed(t *testing.T) {
	for message, want := range map[string]bool{
		`{"method":"tools/call","params":{"name":"add","arguments":{"Name":1,"ID":2},"_meta":{"Name":3}}}`: true,
		`[{"id":1,"method":"a"},{"id":2,"method":"a"}]`:                                                    true,
		`{"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"}}}`:           true,
		`{"method":"tools/call","params":{"name":"add","Name":"secret"}}`:                                  false,
		`{"method":"tools/call","params":{"name":"add"},"Params":{"name":"secret"}}`:                       false,
		`{"method":"tools/call","params":{"name":"add","name":"secret"}}`:                                  false,
		`{"method":"tools/call","params":{"name":"add","paramſ":{}}}`:                                      false,
		`{"method":"tools/call","params":{"name":"add","n\u0061me":"secret"}}`:                             false,
		`{"method":"tools/call","params":{"arguments":{"a":1,"a":2}}}`:                                     false,
		`{"method":"completion/complete","params":{"ref":{"name":"greet","NAME":"secret"}}}`:               false,
		`{"method":"tools/call"`: false,
		``:                       false,
	} {
		require.Equal(t, want, agreed([]byte(message)), message)
	}
}
