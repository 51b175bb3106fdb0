package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/vitrine-mcp/vitrine/service/console"
)

// Package service mounts the console by itself. A program with an admin listener of its own
// does it like this, and serves what the page reads with package telemetry.
func ExampleNew() {
	page, err := console.New(console.Page{Name: "weather", Version: "1.2.0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", page.ServeIndex)
	mux.HandleFunc("GET "+console.Prefix, page.ServeAsset)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "<title>weather – Vitrine</title>"))

	// Output:
	// 200 true
}
