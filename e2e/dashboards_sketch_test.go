package e2e

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A sketch is a simple picture of a dashboard, with the places and the values of its panels.
type sketch struct {
	title string
	body  strings.Builder
	depth int // in rows of the grid
}

// The grid of Grafana is 24 columns wide.
const (
	cellWidth, cellHeight = 60, 36
	gap                   = 6
)

// add draws a panel with the answers to its queries.
func (s *sketch) add(p panel, lines []line) {
	at := p.GridPos
	s.depth = max(s.depth, at.Y+at.H)
	width, height := float64(at.W*cellWidth-gap), float64(at.H*cellHeight-gap)
	class := p.Type
	fmt.Fprintf(&s.body, "<div class=\"%s\" style=\"left:%dpx;top:%dpx;width:%.0fpx;height:%.0fpx\" title=\"%s\"><h2>%s</h2>",
		class, at.X*cellWidth, at.Y*cellHeight, width, height, html.EscapeString(p.Description), html.EscapeString(p.Title))
	unit := p.FieldConfig.Defaults.Unit
	switch p.Type {
	case "row":
	case "stat":
		for _, l := range lines {
			fmt.Fprintf(&s.body, "<b>%s</b> ", quantity(l.last(), unit))
		}
	case "table":
		s.body.WriteString("<table>")
		for _, l := range lines {
			fmt.Fprintf(&s.body, "<tr><td>%s</td><td>%s</td></tr>", html.EscapeString(labelText(l.labels)), quantity(l.last(), unit))
		}
		s.body.WriteString("</table>")
	default:
		s.body.WriteString(drawLines(lines, width, height-40, unit))
	}
	s.body.WriteString("</div>\n")
}

func (l line) last() float64 { return l.points[len(l.points)-1][1] }

// drawLines draws values over time, with the largest ones in the legend.
func drawLines(lines []line, width, height float64, unit string) string {
	from, to, low, high := math.Inf(1), math.Inf(-1), 0.0, 0.0
	for _, l := range lines {
		for _, p := range l.points {
			from, to, low, high = min(from, p[0]), max(to, p[0]), min(low, p[1]), max(high, p[1])
		}
	}
	span, scale := max(to-from, 1), max(high-low, 1e-9)
	slices.SortStableFunc(lines, func(a, b line) int { return -compare(a.last(), b.last()) })
	var out strings.Builder
	plot := height - 48
	fmt.Fprintf(&out, "<svg width=\"%.0f\" height=\"%.0f\"><text x=\"2\" y=\"10\">%s</text>", width, plot, quantity(high, unit))
	for i, l := range lines {
		var points []string
		for _, p := range l.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", (p[0]-from)/span*width, (1-(p[1]-low)/scale)*(plot-4)+2))
		}
		fmt.Fprintf(&out, "<polyline fill=\"none\" stroke=\"hsl(%d 65%% 45%%)\" stroke-width=\"1.5\" points=\"%s\"/>", i*67%360, strings.Join(points, " "))
	}
	out.WriteString("</svg><p>")
	for i, l := range lines {
		if i == 8 {
			fmt.Fprintf(&out, "and %d more", len(lines)-i)
			break
		}
		fmt.Fprintf(&out, "<span style=\"color:hsl(%d 65%% 35%%)\">%s&nbsp;%s</span> ", i*67%360, html.EscapeString(strings.TrimSpace(l.legend)), quantity(l.last(), unit))
	}
	return out.String() + "</p>"
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// quantity is a number with its unit.
func quantity(v float64, unit string) string {
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch unit {
	case "percentunit":
		return short(v*100) + " %"
	case "s":
		return short(v) + " s"
	case "bytes", "Bps":
		if v >= 1<<20 {
			return short(v/(1<<20)) + " MiB"
		}
		return short(v/1024) + " KiB"
	case "reqps", "ops":
		return short(v) + "/s"
	}
	return short(v)
}

func (s *sketch) html() string {
	return fmt.Sprintf(`<!doctype html><meta charset="utf-8"><title>%[1]s</title><style>
body { font: 11px sans-serif; margin: 12px; color: #222 } main { position: relative; height: %[2]dpx; width: %[3]dpx }
main > div { position: absolute; border: 1px solid #ccc; overflow: hidden; box-sizing: border-box; padding: 4px }
main > .row { background: #eee; padding: 6px } h2 { font-size: 12px; margin: 0 0 2px } b { font-size: 24px } p { margin: 2px }
</style><h1>%[1]s</h1><main>
%[4]s</main>`, html.EscapeString(s.title), s.depth*cellHeight, 24*cellWidth, s.body.String())
}

// A sketch shows titles, values and lines.
func TestSketch(t *testing.T) {
	s := sketch{title: "A & B"}
	s.add(panel{Type: "stat", Title: "One"}, []line{{points: [][2]float64{{1, 42}}}})
	s.add(panel{Type: "timeseries", Title: "Two"}, []line{{legend: "a<b", points: [][2]float64{{1, 1}, {2, 3}}}})
	for _, part := range []string{"A &amp; B", "<b>42</b>", "<polyline", "a&lt;b&nbsp;3"} {
		if !strings.Contains(s.html(), part) {
			t.Errorf("%q is not in %s", part, s.html())
		}
	}
}
