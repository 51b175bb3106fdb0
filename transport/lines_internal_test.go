package transport

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestLineReader(t *testing.T) {
	const limit = 10
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
				lines := newLineReader(wrap(strings.NewReader(tt.in)), limit)
				var got []string
				for {
					line, err := lines.next()
					switch {
					case errors.Is(err, errLineTooLong):
						got = append(got, "!")
					case err == nil || len(line) > 0:
						got = append(got, string(line))
					}
					if errors.Is(err, io.EOF) {
						break
					}
					require.True(t, err == nil || errors.Is(err, errLineTooLong), "%v", err)
				}
				require.Equal(t, tt.want, got)
			})
		}
	}
}

// Lines live on in the messages that were cut from them.
func TestLinesHaveTheirOwnMemory(t *testing.T) {
	lines := newLineReader(strings.NewReader("first\nother\n"), 10)
	first, err := lines.next()
	require.NoError(t, err)
	_, err = lines.next()
	require.NoError(t, err)
	require.Equal(t, "first", string(first))
	require.Equal(t, "first", string(append(first, "tail"...)[:5]))
}

func TestLineReaderPassesErrors(t *testing.T) {
	boom := errors.New("boom")
	lines := newLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(boom)), 10)
	line, err := lines.next()
	require.NoError(t, err)
	require.Equal(t, "a", string(line))
	_, err = lines.next()
	require.ErrorIs(t, err, boom)
}
