package adapt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Messages that decoders may read in different ways are not read ahead.
func TestAgreed(t *testing.T) {
	for message, want := range map[string]bool{
		`{"method":"tools/call","params":{"name":"add","arguments":{"Name":1,"ID":2},"_meta":{"Name":3}}}`:         true,
		`[{"id":1,"method":"a"},{"id":2,"method":"a"}]`:                                                            true,
		`{"method":"tools/call","params":{"inputResponses":{"f":{"content":{"Name":"Ada","ID":7}}}}}`:              true,
		`{"method":"tools/call","params":{"inputResponses":{"Name":{},"f":[{"Params":{"Name":1}}]}}}`:              true,
		`{"method":"completion/complete","params":{"argument":{"name":"a"},"context":{"arguments":{"Name":"x"}}}}`: true,
		`{"method":"notifications/progress","params":{"progressToken":1,"Type":1,"data":{"Method":1}}}`:            true,
		`{"id":1,"result":{"action":"accept","content":{"Name":"Ada","Method":"x","Params":{}}}}`:                  true,
		`{"id":1,"error":{"code":1,"message":"x","data":{"ID":1}}}`:                                                true,
		`{"method":"tools/call","params":[{"Name":"x"}]}`:                                                          true,
		`[{"id":1,"method":"a"},{"id":2,"Method":"a"}]`:                                                            false,
		`{"method":"notifications/cancelled","params":{"requestId":1,"RequestId":2}}`:                              false,
		`{"method":"subscriptions/listen","params":{"notifications":{"ResourceSubscriptions":["a"]}}}`:             false,
		`{"method":"tools/call","params":{"inputResponses":{"f":1,"f":2}}}`:                                        false,
		`[{"id":1,"method":"a"}`: false,
		`{"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"}}}`: true,
		`{"method":"tools/call","params":{"name":"add","Name":"secret"}}`:                        false,
		`{"method":"tools/call","params":{"name":"add"},"Params":{"name":"secret"}}`:             false,
		`{"method":"tools/call","params":{"name":"add","name":"secret"}}`:                        false,
		`{"method":"tools/call","params":{"name":"add"},"paramſ":{}}`:                            false,
		`{"method":"tools/call","params":{"name":"add","n\u0061me":"secret"}}`:                   false,
		`{"method":"tools/call","params":{"arguments":{"a":1,"a":2}}}`:                           false,
		`{"method":"completion/complete","params":{"ref":{"name":"greet","NAME":"secret"}}}`:     false,
		`{"method":"tools/call"`: false,
		``:                       false,
	} {
		require.Equal(t, want, agreed([]byte(message)), message)
	}
}
