package transport

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

const limit = 10

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 40_000) // longer than the buffer
	for _, tt := range []struct {
		name, in string
		want     []string // "!" for a line that is too long
	}{
		{"empty", "", nil},
		{"lines", "a\nbb\n", []string{"a", "bb"}},
		{"last line without its end", "a\nbb", []string{"a", "bb"}},
		{"CRLF", "a\r\nbb\r\n", []string{"a", "bb"}},
		{"blank lines", "\n\r\n \t\na\n\n", []string{"", "", "", "a", ""}},
		{"blanks around", "  a b \t\n", []string{"a b"}},
		{"at the limit", "0123456789\n", []string{"0123456789"}},
		{"at the limit, CRLF", "0123456789\r\n", []string{"0123456789"}},
		{"at the limit, without an end", "0123456789", []string{"0123456789"}},
		{"above the limit", "0123456789abc\nok\n", []string{"!", "ok"}},
		{"above the limit, without an end", "ok\n0123456789abc", []string{"ok", "!"}},
		{"above the buffer", long + "\nok\n", []string{"!", "ok"}},
		{"above the buffer, at the end", "ok\n" + long, []string{"ok", "!"}},
		{"twice", long + "\n" + long + "\nok", []string{"!", "!", "ok"}},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"": func(r io.Reader) io.Reader { return r }, ", byte by byte": iotest.OneByteReader, ", with EOF": iotest.DataErrReader,
		} {
			t.Run(tt.name+name, func(t *testing.T) {
				lines := lineReader{in: bufio.NewReader(wrap(strings.NewReader(tt.in)))}
				var got []string
				for {
					line, err := lines.next(limit)
					switch {
					case errors.Is(err, ErrFrameTooLarge):
						got = append(got, "!")
					case err == nil || len(line) > 0:
						got = append(got, string(line))
					}
					if errors.Is(err, io.EOF) {
						break
					}
					require.True(t, err == nil || errors.Is(err, ErrFrameTooLarge), "%v", err)
				}
				require.Equal(t, tt.want, got)
			})
		}
	}
}

// Messages keep the memory of their lines.
func TestLinesHaveTheirOwnMemory(t *testing.T) {
	lines := lineReader{in: bufio.NewReader(strings.NewReader("first\nother\n"))}
	first, err := lines.next(limit)
	require.NoError(t, err)
	_, err = lines.next(limit)
	require.NoError(t, err)
	require.Equal(t, "first", string(first))
	require.Equal(t, "first", string(append(first, "tail"...)[:5]))
}

func TestLineReaderPassesErrors(t *testing.T) {
	boom := errors.New("boom")
	lines := lineReader{in: bufio.NewReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(boom)))}
	line, err := lines.next(limit)
	require.NoError(t, err)
	require.Equal(t, "a", string(line))
	_, err = lines.next(limit)
	require.ErrorIs(t, err, boom)
}
