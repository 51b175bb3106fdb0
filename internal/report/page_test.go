package report

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// named is a page that shows a text of a client.
type named struct {
	Name string `json:"name"`
}

func (n named) WriteText(w io.Writer) {
	WriteTable(w, "NAME", 1, func(int) []any { return []any{n.Name, "end"} })
}

// A text of a client cannot look like another one on a page, and programs read it as it is.
func TestPageHasNoCharactersWithoutAShape(t *testing.T) {
	page := named{"a\u202eb\u200bc\u2028d\ufeffe"}
	asText := httptest.NewRecorder()
	Write(asText, httptest.NewRequest("GET", "/?format=text", nil), page)
	require.Contains(t, asText.Body.String(), "a\ufffdb\ufffdc\ufffdd\ufffde")
	asJSON := httptest.NewRecorder()
	Write(asJSON, httptest.NewRequest("GET", "/", nil), page)
	require.Contains(t, asJSON.Body.String(), `a\u202eb\u200bc\u2028d\ufeffe`)
	var read named
	require.NoError(t, json.Unmarshal(asJSON.Body.Bytes(), &read))
	require.Equal(t, fmt.Sprint(page), fmt.Sprint(read))
}
