package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// statsPath is the path of every server's counters, tokenPath that of its access token. Its profiles are below pprofPath.
const (
	statsPath = "/bench/stats"
	tokenPath = "/bench/token"
	pprofPath = "/debug/pprof/"
)

// stats are counters of [runtime.MemStats] since the start of a process.
type stats struct {
	Mallocs uint64 `json:"mallocs"`
	Bytes   uint64 `json:"bytes"`
}

// announceFD is the descriptor to which a child writes its address. Standard output may belong
// to the protocol.
const announceFD = 3

// serve is the main function of a child. It returns when its standard input ends, so that no
// child outlives its parent.
func serve(name string, tools int, stdio bool) (err error) {
	kind, err := servers.Find(name)
	if err != nil {
		return err
	}
	srv, err := kind.New(tools)
	if err != nil {
		return err
	}
	if srv.Close != nil {
		defer func() { err = errors.Join(err, srv.Close()) }()
	}
	mux := http.NewServeMux()
	if srv.Serve == nil {
		mux.Handle(servers.Modern, srv.Modern)
		mux.Handle(servers.Modern+"/", srv.Modern)
		mux.Handle(servers.Legacy, srv.Legacy)
		mux.Handle(memoryPath, &memoryHandler{connect: srv.Memory})
	}
	mux.HandleFunc(statsPath, writeStats)
	mux.HandleFunc(tokenPath, writeToken)
	if srv.Change != nil {
		mux.HandleFunc(changePath, func(http.ResponseWriter, *http.Request) { srv.Change() })
		mux.HandleFunc(footprintPath, func(w http.ResponseWriter, _ *http.Request) { writeFootprint(w, srv.Waiting.Load()) })
	}
	mux.HandleFunc(pprofPath, pprof.Index)
	mux.HandleFunc(pprofPath+"profile", pprof.Profile)
	if srv.Serve != nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, os.Stdin) // its end is the end of the server
		}()
		return srv.Serve(ctx, mux, announce)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := announce(l.Addr().String()); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- http.Serve(l, mux) }()
	go func() {
		if stdio {
			ended <- srv.Stdio(context.Background())
			return
		}
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	if err := <-ended; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// announce tells the parent where the server listens.
func announce(addr string) error {
	to := os.NewFile(announceFD, "announce")
	_, err := fmt.Fprintln(to, addr)
	return errors.Join(err, to.Close())
}

func writeStats(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_ = json.NewEncoder(w).Encode(stats{Mallocs: m.Mallocs, Bytes: m.TotalAlloc}) // an error means that the client is gone
}

func writeToken(w http.ResponseWriter, _ *http.Request) {
	token, err := servers.Token()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(token) // an error means that the client is gone
}
