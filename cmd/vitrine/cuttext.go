package main

import "unicode/utf8"

// cutText returns a line as valid UTF-8 of at most 300 runes; the last rune of a
// line that was cut is "…".
func cutText(line []byte) string {
	if len(line) > searchMaxTextRunes*utf8.UTFMax {
		line = line[:searchMaxTextRunes*utf8.UTFMax+1] // more bytes than 300 runes have
	}
	text := []rune(string(line)) // turns each invalid byte into U+FFFD
	if len(text) > searchMaxTextRunes {
		text = append(text[:searchMaxTextRunes-1], '…')
	}
	return string(text)
}
