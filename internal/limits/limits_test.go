package limits

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimitsPage holds docs/limits.md against the table.
func TestLimitsPage(t *testing.T) {
	want := []string{"| name | field | default | bounds | counted |", "|---|---|---|---|---|"}
	for _, b := range All() {
		counted := "no"
		if b.Counted {
			counted = "yes"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", b.Name, b.fieldName(), b.defaultText(), b.Usage, counted))
	}
	requireTable(t, want)
}

var update = flag.Bool("update", false, "write the tables of docs/limits.md")

// requireTable compares the table of docs/limits.md that has the same head.
func requireTable(t *testing.T, want []string) {
	const path = "../../docs/limits.md"
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), want[0]+"\n")
	require.True(t, found, "there is no table with the head %s", want[0])
	table, after := want[0]+"\n", rest
	for strings.HasPrefix(after, "|") {
		var line string
		line, after, _ = strings.Cut(after, "\n")
		table += line + "\n"
	}
	whole := strings.Join(want, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+whole+after), 0o644))
		return
	}
	require.Equal(t, whole, table, "go test ./internal/limits -update writes it")
}

// TestTableCoversLimits fails when a field of Limits has no row in the table.
func TestTableCoversLimits(t *testing.T) {
	names := map[string]bool{}
	for _, b := range All() {
		require.False(t, names[b.fieldName()], "two rows for %s", b.fieldName())
		names[b.fieldName()] = true
	}
	fields := reflect.TypeFor[Limits]()
	for i := range fields.NumField() {
		require.True(t, names["`"+fields.Field(i).Name+"`"], "no row for %s", fields.Field(i).Name)
	}
}

func TestLimitsDefaults(t *testing.T) {
	l := Limits{MaxInFlight: 3, EOFGrace: -1}.WithDefaults()
	require.Equal(t, 3, l.MaxInFlight)
	require.Equal(t, time.Duration(-1), l.EOFGrace)
	require.Equal(t, 10_000, l.MaxSessions)
	require.Equal(t, 30*time.Second, l.WriteTimeout)
	require.Less(t, l.EOFGrace+l.CleanupGrace, 2*time.Second, "clients kill after two seconds")
}

// fieldName finds the name of the field by setting it.
func (b Bound) fieldName() string {
	var l Limits
	if p := b.Int(&l); p != nil {
		*p = 1
	} else {
		*b.Duration(&l) = 1
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if v.Field(i).Int() == 1 {
			return "`" + v.Type().Field(i).Name + "`"
		}
	}
	return ""
}

func (b Bound) defaultText() string {
	switch d := b.Default.(type) {
	case time.Duration:
		return d.String()
	case int:
		return strings.TrimSpace(fmt.Sprintf("%d %s", d, b.Unit))
	}
	return ""
}
