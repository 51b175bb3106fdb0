package console_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service/console"
)

// TestIndex: everything is filled in, once and as text, whatever it says.
func TestIndex(t *testing.T) {
	c, err := console.New(console.Page{
		Name: `<b>{{.Build}}</b>`, Version: `1 & "2"`, Build: `</p><script>`, JaegerURL: `http://x" onload="y`, PrometheusURL: `http://p" onload="z`,
	})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	c.ServeIndex(w, httptest.NewRequest("GET", "/", nil))
	page := w.Body.String()
	for _, want := range []string{
		`<title>&lt;b&gt;{{.Build}}&lt;/b&gt; – Vitrine</title>`,
		`<body data-jaeger="http://x&#34; onload=&#34;y" data-prometheus="http://p&#34; onload=&#34;z">`,
		`<h1>&lt;b&gt;{{.Build}}&lt;/b&gt; <span class="version">1 &amp; &#34;2&#34;</span></h1>`,
		`<p class="build">&lt;/p&gt;&lt;script&gt;</p>`,
	} {
		require.Contains(t, page, want)
	}
	require.Equal(t, 2, strings.Count(page, "{{"), "all but the name's own is filled in")
}
