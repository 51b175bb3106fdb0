package service

import (
	"encoding/json"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// maxGoroutineFrames bounds the frames of a stack that are compared and shown.
const maxGoroutineFrames = 32

// A frame is one function of a stack.
type frame struct{ function, place string } // place is file:line

// A goroutineGroup are goroutines with the same labels and stack.
type goroutineGroup struct {
	count        int
	method, tool string
	frames       []frame // the innermost first, without the runtime's
}

// A goroutineWait is what goroutines with the same stack wait for.
type goroutineWait struct {
	states  map[string]int
	minutes int // the longest
}

// key tells stacks apart.
func (g *goroutineGroup) key() string { return stackKey(g.frames) }

func stackKey(frames []frame) string {
	var b strings.Builder
	for _, f := range frames {
		b.WriteString(f.place)
		b.WriteByte('\n')
	}
	return b.String()
}

// parseGroups reads the text of the profile of goroutines.
func parseGroups(text string) (groups []*goroutineGroup) {
	var g *goroutineGroup
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		count, _, isGroup := strings.Cut(line, " @")
		switch {
		case isGroup && !strings.HasPrefix(line, "#"):
			n, err := strconv.Atoi(count)
			if err != nil {
				continue // the head
			}
			g = &goroutineGroup{count: n}
			groups = append(groups, g)
		case g == nil:
		case strings.HasPrefix(line, "# labels: "):
			var labels map[string]string
			if json.Unmarshal([]byte(strings.TrimPrefix(line, "# labels: ")), &labels) == nil {
				g.method, g.tool = labels["mcp.method"], labels["tool"]
			}
		case strings.HasPrefix(line, "#\t"):
			if cells := strings.Split(line, "\t"); len(cells) >= 4 { // address, function+offset, file:line, with empty ones between
				function := cells[2]
				if i := strings.LastIndex(function, "+0x"); i >= 0 {
					function = function[:i]
				}
				g.frames = addFrame(g.frames, frame{function, cells[len(cells)-1]})
			}
		}
	}
	return groups
}

// parseWaits reads the stacks that the runtime prints, and returns what goroutines wait for by their stack.
func parseWaits(text string) map[string]*goroutineWait {
	waits := map[string]*goroutineWait{}
	for one := range strings.SplitSeq(text, "\n\n") {
		head, rest, _ := strings.Cut(one, "\n")
		_, state, ok := strings.Cut(head, " [")
		if !ok {
			continue
		}
		state, _, _ = strings.Cut(state, "]")
		state, more, _ := strings.Cut(state, ", ")
		minutes := 0
		if n, ok := strings.CutSuffix(strings.SplitN(more, ", ", 2)[0], " minutes"); ok {
			minutes, _ = strconv.Atoi(n) // 0 if it is no number
		}
		key := stackKey(printedFrames(rest))
		w := waits[key]
		if w == nil {
			w = &goroutineWait{states: map[string]int{}}
			waits[key] = w
		}
		w.states[state]++
		w.minutes = max(w.minutes, minutes)
	}
	return waits
}

// printedFrames reads the frames of one stack that the runtime has printed: for each one line with the function
// and its arguments, and one with file and line.
func printedFrames(text string) (frames []frame) {
	function := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if place, ok := strings.CutPrefix(line, "\t"); ok {
			place, _, _ = strings.Cut(place, " +0x")
			frames = addFrame(frames, frame{function, place})
			continue
		}
		if strings.HasPrefix(line, "created by ") {
			break
		}
		function = line
		if i := strings.LastIndexByte(line, '('); i > 0 {
			function = line[:i]
		}
	}
	return frames
}

// addFrame adds a frame, unless it is the runtime's or there are too many.
func addFrame(frames []frame, f frame) []frame {
	if strings.HasPrefix(f.function, "runtime.") || strings.HasPrefix(f.function, "internal/runtime/") || len(frames) == maxGoroutineFrames {
		return frames
	}
	return append(frames, f)
}

// row returns the group as the page shows it. w is nil if it is not known what it waits for.
func (g *goroutineGroup) row(w *goroutineWait) report.GoroutineGroup {
	row := report.GoroutineGroup{Count: g.count, Method: g.method, Tool: g.tool, Blocking: "the runtime", Stack: []string{}}
	named := false
	for i, f := range g.frames {
		text := f.function + " " + path.Base(f.place)
		if i == 0 || !named && !f.isInternal() {
			row.Blocking, named = text, !f.isInternal()
		}
		if row.Application == "" && f.isApplication() {
			row.Application = text
		}
		row.Stack = append(row.Stack, f.function+" "+f.place)
	}
	if w != nil {
		row.LongestWaitSeconds = float64(w.minutes) * 60
		most := 0
		for state, n := range w.states {
			if n > most || n == most && state < row.State {
				most, row.State = n, state
			}
		}
	}
	return row
}

// ownModule is the path of this module.
const ownModule = "github.com/vitrine-mcp/vitrine/"

// isApplication reports whether a function belongs to the program, and not to the standard library or to Vitrine.
func (f frame) isApplication() bool {
	pkg := f.function
	if i := strings.IndexByte(pkg[strings.LastIndexByte(pkg, '/')+1:], '.'); i >= 0 {
		pkg = pkg[:strings.LastIndexByte(pkg, '/')+1+i]
	}
	if own, ok := strings.CutPrefix(pkg, ownModule); ok {
		return strings.HasPrefix(own, "cmd/") || strings.HasPrefix(own, "examples/") || strings.HasSuffix(own, "_test")
	}
	first, _, _ := strings.Cut(pkg, "/")
	return pkg == "main" || strings.Contains(first, ".") || isMainModule(pkg)
}

// isInternal reports whether a function is a part of the standard library that says little about what is waited for.
func (f frame) isInternal() bool {
	return strings.HasPrefix(f.function, "internal/") || strings.Contains(f.function, ".runtime_")
}

// isMainModule reports whether a package belongs to the module of the program, whose path may have no dot.
func isMainModule(pkg string) bool {
	info, ok := debug.ReadBuildInfo()
	return ok && info.Main.Path != "" && (pkg == info.Main.Path || strings.HasPrefix(pkg, info.Main.Path+"/"))
}
