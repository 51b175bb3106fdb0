// Command hello is the least that a service with net/http can be: it says where it
// listens, as Vitrine does, and answers with what it is asked. How long it takes to start,
// and what it keeps in memory, is what the machine and Go take.
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
			_, _ = io.Copy(w, r.Body) // the client is gone
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
