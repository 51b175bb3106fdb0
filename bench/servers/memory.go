package servers

import (
	"bufio"
	"net"
)

// An Ask sends one message to a server in the same process and returns its answer, which
// is valid until the next one. It must be used by one goroutine at a time.
type Ask func(message []byte) (answer []byte, err error)

// overPipe returns an Ask over a pipe to a server. It uses no client library, so that only the
// server and the pipe are measured.
func overPipe(serve func(net.Conn)) Ask {
	server, client := net.Pipe()
	go serve(server)
	in := bufio.NewReaderSize(client, 64<<10)
	return func(message []byte) ([]byte, error) {
		if _, err := client.Write(append(message, '\n')); err != nil {
			return nil, err
		}
		return in.ReadSlice('\n')
	}
}
