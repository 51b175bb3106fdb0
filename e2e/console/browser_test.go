package console

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

var screenshots = flag.String("screenshots", "", "the `folder` for the pictures that the tests take")

// chromium returns the browser's program, or ends the test by the rules of package needs.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	needs.Skip(t, "e2e/console", "no chromium in PATH")
	return ""
}

// A tab is a page in a browser of its own.
type tab struct {
	ctx  context.Context
	host string

	mu       sync.Mutex
	faults   []string // errors on the browser's console, and requests to other hosts
	requests []sent
	updates  []int // sizes of the live frames that have come, in bytes
}

// A sent is a request that the page has made.
type sent struct {
	url string
	at  float64 // seconds, on the browser's clock
}

// open opens the console of a service and waits until it is live.
func open(t *testing.T, w *world) *tab {
	t.Helper()
	path := chromium(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(t.TempDir()))
	base, cancel := context.WithTimeout(context.Background(), 4*patience)
	alloc, stop := chromedp.NewExecAllocator(base, options...)
	ctx, leave := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		leave() // waits for the end of the browser
		stop()
		cancel()
	})
	address, err := url.Parse(w.Admin)
	if err != nil {
		t.Fatal(err)
	}
	p := &tab{ctx: ctx, host: address.Host}
	if err := chromedp.Listen(ctx, p.watch); err != nil {
		t.Fatal(err)
	}
	p.do(t, command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}),
		chromedp.EmulateViewport(1280, 900), chromedp.Navigate(w.Admin+"/"))
	p.await(t, `document.getElementById('status').dataset.state === 'live'`)
	return p
}

// watch records events that must not happen.
func (p *tab) watch(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fault := func(format string, args ...any) { p.faults = append(p.faults, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, sent{e.Request.URL, float64(e.Timestamp)})
		if u, err := url.Parse(e.Request.URL); err != nil || u.Host != p.host {
			fault("a request to %s", e.Request.URL)
		}
	case *network.EventEventSourceMessageReceived:
		p.updates = append(p.updates, len(e.Data))
	case *runtime.EventExceptionThrown:
		fault("exception: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.URL)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault("console: %s", e.Type)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	}
}

// clean fails the test if something has happened that must not. What has one of the parts
// is as it should be.
func (p *tab) clean(t *testing.T, expected ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if !slices.ContainsFunc(expected, func(part string) bool { return strings.Contains(f, part) }) {
			t.Error(f)
		}
	}
	if len(p.requests) == 0 {
		t.Error("no request was seen")
	}
}

// seen returns the requests of the page so far.
func (p *tab) seen() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// sent counts the requests for paths that contain part.
func (p *tab) sent(part string) (n int) {
	for _, r := range p.seen() {
		if strings.Contains(r.url, part) {
			n++
		}
	}
	return n
}

func (p *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// command is a command of the protocol as an action.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

// value is a command of the protocol with a result.
func value[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, target *chromedp.Target) (R, error) { return cdp.Call(ctx, target, c, params) }
}

// eval returns the value of an expression.
func eval[T any](t *testing.T, p *tab, expression string) T {
	t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true. While the page is loaded anew it has no value.
func (p *tab) await(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		yes, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && yes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it did not come true: %s: %v\nthe page:\n%s", expression, err, eval[string](t, p, "document.body.innerText"))
		}
	}
}

// awaitText waits until the text of the selected elements has all the words.
func (p *tab) awaitText(t *testing.T, selector string, words ...string) {
	t.Helper()
	var parts []string
	for _, w := range words {
		parts = append(parts, fmt.Sprintf("n.innerText.includes(%q)", w))
	}
	p.await(t, fmt.Sprintf("[...document.querySelectorAll(%q)].some((n) => %s)", selector, strings.Join(parts, " && ")))
}

// show sets the size of the window and the colour scheme.
func (p *tab) show(t *testing.T, width, height int64, scheme string) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	p.do(t, chromedp.EmulateViewport(width, height), command(emulation.SetEmulatedMedia, media))
}

// picture takes a picture of the window, and one of the whole page.
func (p *tab) picture(t *testing.T, name string) {
	t.Helper()
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	for suffix, take := range map[string]chromedp.Action[[]byte]{"": chromedp.CaptureScreenshot(), "-whole": chromedp.FullScreenshot(100)} {
		png, err := chromedp.Run(p.ctx, take)
		if err != nil {
			t.Fatal(err)
		}
		if len(png) < 10000 {
			t.Errorf("the picture %s has %d bytes", name, len(png))
		}
		if err := os.WriteFile(filepath.Join(dir, name+suffix+".png"), png, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
