package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// headline is the scenario of the picture. If it was not measured, the first one is.
const headline = "http/call/modern/small/16"

// svg returns a picture of the CPU time of one request, a bar for each server.
func (r report) svg() []byte {
	shown := r.results[0]
	for _, res := range r.results {
		if res.scenario.name() == headline {
			shown = res
		}
	}
	cpu := make([]float64, len(r.plan.kinds))
	longest := 0.0
	for i := range cpu {
		cpu[i] = spreadOf(shown.samples[i], func(s sample) float64 { return micros(s.cpu) }).median
		longest = max(longest, cpu[i])
	}
	const left, bar, line, top, right = 270, 430, 26, 44, 100
	width, height := left+bar+right, top+line*len(cpu)+10
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="10" y="24" font-weight="bold">CPU µs of one request: %s, %s</text>`+"\n",
		html.EscapeString(shown.scenario.group), html.EscapeString(shown.scenario.title()))
	for i, k := range r.plan.kinds {
		colour, y := "#9aa5b1", top+line*i
		if strings.HasPrefix(k.Name, "vitrine") {
			colour = "#1f6feb"
		}
		length := bar * cpu[i] / longest
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-10, y+15, html.EscapeString(k.Title))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, y+2, length, line-8, colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.1f</text>`+"\n", left+length+6, y+15, cpu[i])
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
