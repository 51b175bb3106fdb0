package telemetry

import (
	"fmt"
	"io"
	"text/tabwriter"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// ReportTask is one handler that goes on as a task.
type ReportTask struct {
	Task       string  `json:"task"` // the start of its id
	Tool       string  `json:"tool"`
	AgeSeconds float64 `json:"age_seconds"`
	// LifeSeconds is what is left of its life.
	LifeSeconds         float64 `json:"life_seconds,omitzero"`
	CancelCause         string  `json:"cancel_cause,omitempty"`
	CancelledForSeconds float64 `json:"cancelled_for_seconds,omitzero"`
	Abandoned           bool    `json:"abandoned,omitzero"`
	TraceID             string  `json:"trace_id,omitempty"`
	SpanID              string  `json:"span_id,omitempty"`
}

func reportTask(info *session.DetachedInfo) ReportTask {
	d := info.Detached
	row := ReportTask{Task: d.Name, Tool: d.Series.Target, AgeSeconds: info.Age.Seconds(), Abandoned: info.Abandoned}
	ctx := d.Context()
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		row.TraceID, row.SpanID = sc.TraceID().String(), sc.SpanID().String()
	}
	row.LifeSeconds = info.Left.Seconds()
	if info.Cancel != nil {
		row.CancelCause, row.CancelledForSeconds = string(info.Cancel.Cause), info.CancelFor.Seconds()
	}
	return row
}

// writeTasks writes the tasks for a person at a terminal.
func (rep *Report) writeTasks(w io.Writer) {
	if len(rep.Tasks) == 0 {
		return
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "TASK FOR\tTASK\tTOOL\tENDS IN\tCANCELLED\tTRACE")
	for i := range rep.Tasks {
		t := &rep.Tasks[i]
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", seconds(t.AgeSeconds), t.Task, t.Tool, seconds(t.LifeSeconds),
			cancelText(t.CancelCause, t.CancelledForSeconds, t.Abandoned), dash(t.TraceID))
	}
	_ = tw.Flush()
}
