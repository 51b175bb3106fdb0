package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// Outgoing are the HTTP requests of handlers to one host, with one method. They are known from the spans that
// the handlers' clients record.
type Outgoing struct {
	Host       string  `json:"host"`
	Method     string  `json:"method"`
	Count      int     `json:"count"`
	Errors     int     `json:"errors"`
	P50Seconds float64 `json:"p50_seconds"`
	MaxSeconds float64 `json:"max_seconds"`
	SumSeconds float64 `json:"sum_seconds"`
}

// maxOutgoing bounds the rows of outgoing requests.
const maxOutgoing = 20

// OutgoingOf adds up the HTTP requests among spans by host and method: those with the most time first, at most 20.
func OutgoingOf(spans []Span) []Outgoing {
	type key struct{ host, method string }
	took, rows := map[key][]float64{}, map[key]*Outgoing{}
	for i := range spans {
		host, method, ok := spans[i].outgoing()
		if !ok {
			continue
		}
		k := key{host, method}
		if rows[k] == nil {
			rows[k] = &Outgoing{Host: host, Method: method}
		}
		rows[k].Count++
		rows[k].SumSeconds += spans[i].Seconds
		if spans[i].Status == "Error" {
			rows[k].Errors++
		}
		took[k] = append(took[k], spans[i].Seconds)
	}
	var list []Outgoing
	for k, row := range rows {
		slices.Sort(took[k])
		row.P50Seconds, row.MaxSeconds = took[k][(len(took[k])-1)/2], took[k][len(took[k])-1]
		list = append(list, *row)
	}
	order.By(list, func(a, b *Outgoing) bool {
		return cmp.Or(cmp.Compare(b.SumSeconds, a.SumSeconds), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Method, b.Method)) < 0
	})
	return list[:min(len(list), maxOutgoing)]
}

// outgoing returns host and method of a span of an HTTP client, by the present conventions or the ones before.
func (s *Span) outgoing() (host, method string, ok bool) {
	if s.Kind != "client" {
		return "", "", false
	}
	port := ""
	for _, a := range s.Attributes {
		switch a.Key {
		case "http.request.method", "http.method":
			method = a.Value
		case "server.address", "net.peer.name":
			host = a.Value
		case "server.port", "net.peer.port":
			port = ":" + a.Value
		}
	}
	return dash(host) + port, method, method != ""
}

func writeOutgoing(w io.Writer, rows []Outgoing) {
	writeSection(w, "OUTGOING HTTP\tMETHOD\tCOUNT\tERRORS\tP50\tMAX\tSUM", len(rows), func(i int) []any {
		o := &rows[i]
		return []any{o.Host, o.Method, o.Count, fmt.Sprint(o.Errors), fine(o.P50Seconds), fine(o.MaxSeconds), fine(o.SumSeconds)}
	})
}
