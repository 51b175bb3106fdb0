package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes a table as text. heads has the heads of the columns, separated by tabs, or is "".
// cells returns the cells of a row.
func WriteTable(w io.Writer, heads string, rows int, cells func(row int) []any) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if heads != "" {
		fmt.Fprintln(tw, heads)
	}
	for row := range rows {
		line := cells(row)
		fmt.Fprintf(tw, strings.Repeat("%v\t", len(line)-1)+"%v\n", line...)
	}
	_ = tw.Flush() // an error means that the client has gone away
}

// writeSection writes an empty line and a table. It writes nothing if there are no rows.
func writeSection(w io.Writer, heads string, rows int, cells func(row int) []any) {
	if rows > 0 {
		fmt.Fprintln(w)
		WriteTable(w, heads, rows, cells)
	}
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// fine formats seconds with a precision that depends on the value.
func fine(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func dash(s string) string { return cmp.Or(s, "-") }

// who returns the principal and the client of a caller in one text.
func who(principal, client string) string {
	switch {
	case principal == "":
		return client
	case client == "":
		return principal
	}
	return principal + " by " + client
}
