// Command hello is a minimal service with net/http: it prints its address, as Vitrine does, and
// its response repeats the body. Its start time and its memory are those of the machine and of
// Go.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Fprintf(os.Stderr, `{"msg":"service.ready","mcp":"http://%s/"}`+"\n", l.Addr())
		err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body) // an error means that the client is gone
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
