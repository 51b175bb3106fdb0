package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The measured program is built like the one in the image.
func TestReleaseIsBuiltAsTheDockerfileSays(t *testing.T) {
	dockerfile, err := os.ReadFile(filepath.Join("..", "deploy", "container", "Dockerfile"))
	require.NoError(t, err)
	unquoted := strings.ReplaceAll(string(dockerfile), `"`, "")
	require.Contains(t, unquoted, "go build "+strings.Join(releaseFlags, " ")+" -o ")
	require.Contains(t, unquoted, "CGO_ENABLED=0 ")
}

func TestRelease(t *testing.T) {
	p := plan{scale: none(), extras: extras(regexp.MustCompile("^release$")), starts: 2, pause: time.Millisecond, progress: io.Discard}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	require.Len(t, got.release.programs, 2)
	for _, one := range got.release.programs {
		name := one.program.title
		require.Greater(t, one.size, int64(1e6), name)
		require.Len(t, one.launches, 2, name)
		for _, l := range one.launches {
			require.Positive(t, l.cpu, name)
			require.Positive(t, l.took, name)
		}
		for moment, all := range one.idle {
			require.Len(t, all, idlers, "%s, %d", name, moment)
			for _, m := range all {
				require.Greater(t, m.resident, m.file, name)
				require.Positive(t, m.file, name)
			}
		}
	}
	vitrine, hello := got.release.programs[0], got.release.programs[1]
	require.Greater(t, vitrine.size, hello.size)
	require.Greater(t, vitrine.idle[afterScrapes][0].resident, vitrine.idle[afterAnswer][0].resident, "it was scraped")
}

// A program that does not start, or answers wrongly, has no figure.
func TestProgramThatDoesNotStartHasNoFigure(t *testing.T) {
	hello := program{title: "hello", module: ".", source: "./hello", path: filepath.Join(t.TempDir(), "hello")}
	require.NoError(t, hello.build())
	s, _, err := hello.launch(t.TempDir())
	if s != nil {
		s.stop()
	}
	require.ErrorContains(t, err, "does not have the text", "it echoes, and that is not what is expected")
	hello.path += "-not"
	_, _, err = hello.launch(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = program{path: "sh", args: []string{"-c", `echo '{"msg":"service.start"}' >&2`}}.launch(t.TempDir())
	require.ErrorContains(t, err, "does not say that it is ready")
	require.ErrorContains(t, program{module: ".", source: "./nothing"}.build(), "go build of ./nothing")
}

// testRelease is what a release may have taken, so many times.
func testRelease(times float64) releaseResult {
	one := func(prog program, times float64) programResult {
		r := programResult{program: prog, size: int64(20e6 * times)}
		for _, ms := range []float64{30, 40, 400} {
			took := time.Duration(ms * times * float64(time.Millisecond))
			r.launches = append(r.launches, launch{took, took / 2})
		}
		for moment, mb := range [moments]float64{20, 21, 24, 40} {
			for i := range idlers {
				r.idle[moment] = append(r.idle[moment], memory{1e6 * times * (mb + float64(i)/2), 1e6 * times * 15})
			}
		}
		return r
	}
	programs := releasedPrograms()
	return releaseResult{3 * time.Second, []programResult{one(programs[0], times), one(programs[1], times/10)}}
}

func TestReleaseTable(t *testing.T) {
	require.Equal(t, "|  | Vitrine | net/http |\n|---|---:|---:|\n"+
		"| binary | 20.0 MB | 2.0 MB |\n"+
		"| from exec to the first answer | 40.0 (30.0–400.0) ms | 4.0 (3.0–40.0) ms |\n"+
		"| CPU time of that | 20.0 (15.0–200.0) ms | 2.0 (1.5–20.0) ms |\n"+
		"| resident after the first answer | 20.5 (20.0–21.0) MB, 15.0 of them its file's | 2.0 (2.0–2.1) MB, 1.5 of them its file's |\n"+
		"| 3s later | 21.5 (21.0–22.0) MB, 15.0 of them its file's | 2.1 (2.1–2.2) MB, 1.5 of them its file's |\n"+
		"| after a scrape of the metrics | 24.5 (24.0–25.0) MB, 15.0 of them its file's |  |\n"+
		"| after 40 scrapes | 40.5 (40.0–41.0) MB, 15.0 of them its file's |  |\n",
		report{outcome: outcome{release: testRelease(1)}}.Release())
	require.Empty(t, report{}.Release())
}
