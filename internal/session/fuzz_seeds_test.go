package session

// seedScripts are the scripts with which fuzzing begins. In the last byte of a
// call, the high half is the tool and the low half the id.
var seedScripts = []seedScript{
	{}, // nothing but a shutdown
	{0, []seedEvent{ // a cancel, twice, and the id again
		{"call", 0, 0}, {"cancel", 0, 0}, {"cancel", 0, 0}, {"call", 0, 2}, {"cancel", 0, 1}, {"command", 0, doReturn},
	}},
	{0, []seedEvent{ // the original report: two handlers wait for the client at the end of the input
		{"call", 0, 0x70}, {"call", 0, 0x76}, {"eof", 0, 0}, {"sleep", 0, 4}, {"sleep", 0, 4},
	}},
	{0, []seedEvent{ // an answered, a late and a second answer to a request of ours
		{"call", 0, 0x70}, {"reply", 0, 0x0f}, {"reply", 0, 0x0f}, {"command", 0, doAskBriefly}, {"sleep", 0, 4},
		{"reply", 0, 0x1f}, {"reply", 0, 3}, {"reply", 0, 2}, {"reply", 0, 0}, {"command", 0, doReturn},
	}},
	{0, []seedEvent{ // a slow reader, a full queue, the deadline
		{"call", 0, 0x50}, {"stick", 0, 0}, {"command", 0, doBurst}, {"command", 0, doBurst}, {"sleep", 0, 5},
		{"unstick", 0, 0}, {"sleep", 0, 5},
	}},
	{0, []seedEvent{ // a slow reader until the write time-out
		{"call", 0, 0}, {"call", 0, 4}, {"stick", 0, 0}, {"command", 0, doReturn}, {"sleep", 0, 6}, {"sleep", 0, 4},
	}},
	{0, []seedEvent{ // the peer goes, seen by a write and by a flush
		{"connect", 0, 1}, {"connect", 0, 1}, {"call", 0, 0}, {"call", 0x10, 0}, {"call", 0x10, 4}, {"break", 0, 0},
		{"break", 1, 3}, {"command", 0, doReturn}, {"command", 0, doReturn}, {"sleep", 0, 3},
	}},
	{0, []seedEvent{ // queued requests: cancelled, closed, drained
		{"call", 0, 0}, {"call", 0, 1}, {"call", 0, 4}, {"call", 0, 5}, {"call", 0, 6}, {"call", 0, 0x10},
		{"cancel", 0, 5}, {"command", 0, doReturn}, {"shutdown", 0, 0}, {"sleep", 0, 4}, {"drain-deadline", 0, 0},
	}},
	{0, []seedEvent{ // stubborn handlers in a drain
		{"call", 0, 0x10}, {"modern-post", 0, 0x10}, {"shutdown", 0, 0}, {"sleep", 0, 4}, {"drain-deadline", 0, 0},
		{"second-signal", 0, 0}, {"sleep", 0, 2},
	}},
	{1, []seedEvent{ // legacy HTTP: a lost exchange, with the orphan grace; DELETE
		{"open", 0, 0}, {"post", 0, 0}, {"post", 0, 0x74}, {"lose", 0, 0}, {"lose", 0, 0}, {"sleep", 0, 5},
		{"post", 0, 1}, {"delete", 0, 0}, {"delete", 0, 0}, {"post", 0, 0}, {"sleep", 0, 3},
	}},
	{0, []seedEvent{ // legacy HTTP: the cap, idle time, streams
		{"open", 0, 0}, {"open", 0, 0}, {"attach", 0, 0}, {"attach", 0, 0}, {"open", 0, 1}, {"detach", 0, 0},
		{"sleep", 0, 9}, {"open", 0, 1}, {"open", 0, 1}, {"post", 0, 0}, {"post", 1, 0}, {"open", 0, 0}, {"sleep", 0, 7},
	}},
	{0, []seedEvent{ // modern HTTP: disconnects in each state
		{"modern-post", 0, 0}, {"modern-post", 0, 0x10}, {"modern-post", 0, 0x80}, {"lose", 1, 0}, {"lose", 0, 0},
		{"stick", 0, 0}, {"command", 0, doReturn}, {"lose", 0, 0}, {"sleep", 0, 4},
	}},
	{0, []seedEvent{ // panics and exits, also after a cancel, and what is left behind
		{"call", 0, 0xc0}, {"call", 0, 0xd0}, {"call", 0, 0xe0}, {"call", 0, 0x40}, {"cancel", 0, 0}, {"call", 0, 0},
		{"command", 0, doLeaveBehind}, {"command", 0, doReturn}, {"call", 0, 0xf0}, {"sleep", 0, 3},
	}},
	{0, []seedEvent{ // garbage, one frame after the other
		{"call", 0, 0}, {"malformed", 0, 0}, {"malformed", 0, 3}, {"ping", 0, 4}, {"malformed", 0, 5},
		{"malformed", 0, 6}, {"malformed", 0, 7}, {"malformed", 0, 8}, {"call", 0, 4}, {"sleep", 0, 3},
	}},
	{0, []seedEvent{ // notifications from the side, stuck, while the handler returns
		{"call", 0, 0}, {"stick", 0, 0}, {"command", 0, doNotifyAside}, {"command", 0, doReturn}, {"sleep", 0, 1},
		{"unstick", 0, 0}, {"sleep", 0, 4},
	}},
	{2, []seedEvent{ // everything at once
		{"call", 0, 0x20}, {"call", 0, 0x31}, {"modern-call", 0, 0x84}, {"eof", 0, 0}, {"cancel", 0, 1},
		{"command", 1, doReturn}, {"close", 0, 0}, {"shutdown", 0, 0}, {"drain-deadline", 0, 0}, {"sleep", 0, 5},
	}},
}
