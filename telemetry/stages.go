package telemetry

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// A stagedOrigin is an [Origin] that knows how long its request was in each middleware and in the
// handler.
type stagedOrigin interface {
	Stages() *session.Stages                  // nil if the request has no middlewares
	Coding() (decoded, encoded time.Duration) // of the arguments and of the output of a tool
}

// A stage is a part of the running phase of a request, with its own time.
type stage struct {
	name string // see [session.StageMiddleware]; or one of the phases below
	took time.Duration
}

// The phases within running, besides the middlewares.
const (
	phaseDecode     = "decode" // of the arguments, with their validation
	phaseHandler    = session.StageHandler
	phaseEncode     = "encode" // of the output of a tool, with its validation
	phaseMiddleware = "middleware"
)

// stages returns the parts of the running phase in their order, none if only the handler was there.
func (op *Operation) stages(out *Outcome) (list []stage) {
	origin, ok := op.origin.(stagedOrigin)
	if !ok || out.Started == 0 {
		return nil
	}
	decoded, encoded := origin.Coding()
	add := func(name string, took time.Duration) {
		if name != phaseHandler {
			list = append(list, stage{name, took})
			return
		}
		if decoded > 0 {
			list = append(list, stage{phaseDecode, decoded})
		}
		list = append(list, stage{phaseHandler, max(took-decoded-encoded, 0)})
		if encoded > 0 {
			list = append(list, stage{phaseEncode, encoded})
		}
	}
	if s := origin.Stages(); s != nil {
		list = make([]stage, 0, session.MaxTimedMiddlewares+4)
		for name, took := range s.Own() {
			add(name, took)
		}
	} else if decoded > 0 && out.Returned > 0 {
		add(phaseHandler, out.Returned-out.Started)
	}
	return list
}

// stagePhases appends the stages as phases. Their own times are shown one after the other: what a
// middleware does behind the handler is added to what it does before.
func stagePhases(phases []report.Phase, stages []stage, started time.Duration) []report.Phase {
	for _, s := range stages {
		row := report.Phase{Phase: s.name, AfterSeconds: started.Seconds(), Seconds: s.took.Seconds()}
		if name, ok := strings.CutPrefix(s.name, session.StageMiddleware); ok {
			row.Phase, row.Name = phaseMiddleware, name
		}
		phases, started = append(phases, row), started+s.took
	}
	return phases
}

// appendStages appends the attributes of stages. A request without middlewares has none.
func appendStages(attrs []attribute.KeyValue, stages []stage) []attribute.KeyValue {
	if len(stages) == 0 || !strings.HasPrefix(stages[0].name, session.StageMiddleware) {
		return attrs
	}
	for _, s := range stages {
		name := s.name
		if middleware, ok := strings.CutPrefix(name, session.StageMiddleware); ok {
			name = phaseMiddleware + "." + middleware
		}
		attrs = append(attrs, attribute.Key(string(keyPhase)+"."+name).Float64(s.took.Seconds()))
	}
	return attrs
}
