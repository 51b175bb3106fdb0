package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// longest is the deadline of the tools whose callers say how long they take.
const longest = 10 * time.Minute

type none struct{}

type textInput struct {
	Text string `json:"text"`
}

type sleepInput struct {
	MS       int64  `json:"ms"`
	Stubborn bool   `json:"stubborn,omitempty"`
	Text     string `json:"text,omitempty"` // the result, instead of "slept"
}

type payInput struct {
	Amount int `json:"amount"`
}

type consent struct {
	OK bool `json:"ok"`
}

type regionalInput struct {
	Region string `json:"region"`
}

// regionalSchema has an argument that clients repeat in the header Mcp-Param-Region.
const regionalSchema = `{"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}, "required": ["region"]}`

// addTools adds the tools of an honest server.
func addTools(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in textInput) (string, error) {
		return in.Text, nil
	})
	server.AddTool(srv, server.Tool{Name: "fail"}, func(_ context.Context, _ *server.Call, in textInput) (string, error) {
		return "", fmt.Errorf("failed with %s", in.Text)
	})
	server.AddTool(srv, server.Tool{Name: "sleep", Deadline: longest}, sleep)
	server.AddTool(srv, server.Tool{Name: "scarce", Deadline: longest, Class: server.NewClass("scarce", 4).PerCaller(2)}, sleep)
	server.AddTool(srv, server.Tool{Name: "ask", Deadline: longest}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		answer, _, err := server.ElicitForm[consent](call, "confirm", "Shall I?")
		return fmt.Sprint(answer.OK), err
	})
	addPayment(srv, "pay")
	addPayment(srv, "pay_again") // to replay the state of one tool to another
	server.AddTool(srv, server.Tool{Name: "paid"}, func(context.Context, *server.Call, none) (string, error) {
		return fmt.Sprint(payments.Load()), nil
	})
	server.AddTool(srv, server.Tool{Name: "regional", InputSchema: jsontext.Value(regionalSchema)},
		func(_ context.Context, _ *server.Call, in regionalInput) (string, error) {
			return "in " + in.Region, nil
		})
	server.AddTool(srv, server.Tool{Name: "job", Task: server.TaskRequired, Deadline: longest}, job)
	server.AddTool(srv, server.Tool{Name: "permit", Task: server.TaskRequired, Deadline: longest}, permit)
}

func sleep(ctx context.Context, _ *server.Call, in sleepInput) (string, error) {
	if in.Stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	return cmp.Or(in.Text, "slept"), wait(ctx, time.Duration(in.MS)*time.Millisecond)
}

// wait waits for a time and returns the cause if the call is cancelled first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// payments counts how often a tool has paid.
var payments atomic.Int64

// addPayment adds a tool that asks before it pays.
func addPayment(srv *server.Server, name string) {
	server.AddTool(srv, server.Tool{Name: name}, func(_ context.Context, call *server.Call, in payInput) (string, error) {
		answer, action, err := server.ElicitForm[consent](call, "confirm", fmt.Sprintf("Pay %d?", in.Amount))
		if err != nil {
			return "", err
		}
		if action != mcp.ElicitAccept || !answer.OK {
			return "not paid", nil
		}
		payments.Add(1)
		return "paid", nil
	})
}

type jobInput struct {
	MS    int64 `json:"ms"`
	Bytes int   `json:"bytes"`
}

// job is a task that ends after a time with a result of a size.
func job(ctx context.Context, call *server.Call, in jobInput) (string, error) {
	ctx, err := call.Detach(ctx, server.TaskOptions{})
	if err != nil {
		return "", err
	}
	return strings.Repeat("x", min(max(in.Bytes, 0), 1<<20)), wait(ctx, time.Duration(in.MS)*time.Millisecond)
}

// permit is a task that waits for the permission of its caller.
func permit(ctx context.Context, call *server.Call, _ none) (string, error) {
	if _, err := call.Detach(ctx, server.TaskOptions{}); err != nil {
		return "", err
	}
	answer, _, err := server.ElicitForm[consent](call, "confirm", "May I?")
	return fmt.Sprint(answer.OK), err
}
