package server_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

var update = flag.Bool("update", false, "rewrite the reviewed files of spans and metrics in testdata/telemetry")

// A scene is one kind of request and one outcome, whose spans and metrics are a section
// of a reviewed file.
type scene struct {
	title, about string
	nameless     bool // its clients do not say who they are, or have no principal
	limits       server.Limits
	telemetry    []telemetry.Option
	options      []server.Option
	play         func(s *stage)
}

// An act is the scenes of one reviewed file.
type act struct {
	file   string
	scenes []scene
}

func acts() []act {
	return []act{
		{"outcomes.txt", outcomeScenes()},
		{"parents.txt", parentScenes()},
		{"errors.txt", errorScenes()},
		{"rejections.txt", rejectionScenes()},
		{"cancellations.txt", cancelScenes()},
		{"drops.txt", dropScenes()},
		{"dialogue.txt", dialogueScenes()},
		{"tasks.txt", taskScenes()},
		{"subscriptions.txt", subscriptionScenes()},
		{"extensions.txt", extensionScenes()},
		{"gauges.txt", gaugeScenes()},
		{"expired.txt", expiredScenes()},
		{"lists.txt", listScenes()},
	}
}

// TestTelemetryGolden compares what is recorded for each kind of request and outcome with
// files that a person has reviewed: names, kinds, parents, links, attributes, events and
// status of all spans, every counter and histogram that has moved, and the gauges that a scene has measured. After a change
// that is meant, run it with -update and read the difference.
func TestTelemetryGolden(t *testing.T) {
	for _, a := range acts() {
		t.Run(strings.TrimSuffix(a.file, ".txt"), func(t *testing.T) {
			var got strings.Builder
			for _, sc := range a.scenes {
				t.Run(sc.title, func(t *testing.T) {
					got.WriteString(sc.record(t))
				})
			}
			name := filepath.Join("testdata", "telemetry", a.file)
			if t.Failed() {
				return
			}
			if *update {
				require.NoError(t, os.WriteFile(name, []byte(got.String()), 0o644))
				return
			}
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			compareSections(t, string(want), got.String())
		})
	}
}

// compareSections compares section by section, and shows the lines that differ.
func compareSections(t *testing.T, want, got string) {
	t.Helper()
	wanted, recorded := sections(want), sections(got)
	require.Equal(t, titles(wanted), titles(recorded))
	for i, w := range wanted {
		if w == recorded[i] {
			continue
		}
		a, b := strings.Split(w, "\n"), strings.Split(recorded[i], "\n")
		for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
			a, b = a[1:], b[1:]
		}
		for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
			a, b = a[:len(a)-1], b[:len(b)-1]
		}
		t.Errorf("%s:\n- %s\n+ %s", titles(wanted)[i], strings.Join(a, "\n- "), strings.Join(b, "\n+ "))
	}
}

const sectionMark = "=== "

// sections splits a reviewed file.
func sections(file string) []string { return strings.Split(file, "\n"+sectionMark) }

func titles(list []string) (all []string) {
	for _, s := range list {
		first, _, _ := strings.Cut(s, "\n")
		all = append(all, first)
	}
	return all
}

// record plays a scene and returns its section.
func (sc *scene) record(t *testing.T) (section string) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sc)
		sc.play(s)
		s.close()
		section = sectionMark + sc.title + "\n" + sc.about + "\n\n" + s.gauges + s.render() + "\n"
	})
	return section
}

// A stage is a server of its own for one scene, whose telemetry is recorded.
type stage struct {
	t        *testing.T
	srv      *server.Server
	tel      *telemetry.Telemetry
	spans    *tracetest.SpanRecorder
	provider *sdktrace.TracerProvider
	registry *prometheus.Registry
	before   map[string]sample // every series, before the scene
	gauges   string            // see measure
	// named has modern clients say who they are.
	named bool
	// exits end what the scene has opened, in the order of opening.
	exits []func()
}

func newStage(t *testing.T, sc *scene) *stage {
	s := &stage{t: t, spans: tracetest.NewSpanRecorder(), registry: prometheus.NewRegistry()}
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	tel, err := telemetry.New(append([]telemetry.Option{
		telemetry.WithTracerProvider(s.provider), telemetry.WithRegistry(s.registry),
		telemetry.WithLogger(slog.New(slog.DiscardHandler)),
	}, sc.telemetry...)...)
	require.NoError(t, err)
	s.tel = tel
	s.srv = newServer(t, append([]server.Option{server.WithTelemetry(tel), server.WithLimits(sc.limits)}, sc.options...)...)
	server.AddTool(s.srv, server.Tool{Name: "echo"}, text("hello"))
	synctest.Wait() // what the server does by itself at the beginning belongs to no scene
	s.before = samples(t, s.registry)
	return s
}

// close ends everything, so that what is recorded is complete, and checks that no answer
// was lost from the books.
func (s *stage) close() {
	for _, exit := range s.exits {
		exit()
	}
	synctest.Wait()
	s.shutdown(time.Minute)
	synctest.Wait()
	snap := s.srv.Core().Snapshot()
	admitted, sent, stored, dropped := snap.Counters.Totals()
	require.Equal(s.t, admitted, sent+stored+dropped, "admitted = sent + stored + dropped")
}

// shutdown drains the server with a patience.
func (s *stage) shutdown(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = s.srv.Shutdown(ctx) // names the handlers that were abandoned
}

// drain begins a shutdown with much patience, and returns a function that waits for its end.
func (s *stage) drain() (wait func()) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.shutdown(time.Minute)
	}()
	return func() { <-drained }
}

// hold adds a tool that runs until its context ends, and then returns the error of the
// context, or until it is let go.
func (s *stage) hold(name string) (release chan struct{}) {
	release = make(chan struct{})
	server.AddTool(s.srv, server.Tool{Name: name}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		select {
		case <-release:
			return "released", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	return release
}
