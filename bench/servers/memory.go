package servers

import (
	"bufio"
	"net"
)

// An Ask sends one message to a server in the same process and returns its answer, which
// is valid until the next one. It is used by one goroutine.
type Ask func(message []byte) (answer []byte, err error)

// overPipe returns an Ask over a pipe that ends in a server. No client's library is
// between: what is measured is the server, and the pipe.
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
