package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Limits is the page of the limits of a process.
type Limits struct {
	At     time.Time `json:"at"`
	Limits []Limit   `json:"limits"` // in the order of docs/limits.md, then the classes
	// RateLimits are the rate limits of the program.
	RateLimits []RateLimit `json:"rate_limits,omitempty"`
	// OtherReached counts limits of other parts, such as the authenticator, that were reached.
	OtherReached map[string]uint64 `json:"other_reached"`
}

// Where the value of a limit comes from.
const (
	LimitSet     = "set"        // by the program, a flag or a variable
	LimitMemory  = "max_memory" // it follows from that limit
	LimitDefault = "default"
)

// Limit is one limit. Values are numbers of the unit, which is seconds for times.
type Limit struct {
	Limit   string  `json:"limit"`
	Value   float64 `json:"value"` // in force
	Default float64 `json:"default"`
	From    string  `json:"from"` // set, max_memory, default
	Unit    string  `json:"unit"`
	// Used is how much of it is taken now, and Largest the part of the largest caller, named in Caller, or
	// of the largest session for a limit of each session. They are absent where nothing is counted.
	Used    *int   `json:"used,omitempty"`
	Largest *int   `json:"largest,omitempty"`
	Caller  string `json:"caller,omitempty"`
	// Reached counts how often it took effect, since the start. It is absent for what is not counted.
	Reached *uint64 `json:"reached,omitempty"`
	Flag    string  `json:"flag,omitempty"`     // of the command line
	Env     string  `json:"variable,omitempty"` // of the environment
	About   string  `json:"about,omitempty"`    // what it bounds
}

// value formats a value.
func (l *Limit) value(v float64) string {
	if l.Unit == "seconds" {
		return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// WriteText writes the page as text: first the limits that were reached, then the others.
func (p *Limits) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s\n", p.At.Format(time.RFC3339))
	reached := func(l Limit) bool { return l.Reached != nil && *l.Reached > 0 }
	p.writeTable(w, "REACHED LIMIT", slices.DeleteFunc(slices.Clone(p.Limits), func(l Limit) bool { return !reached(l) }))
	p.writeTable(w, "LIMIT", slices.DeleteFunc(slices.Clone(p.Limits), reached))
	writeRateLimits(w, p.RateLimits)
	if len(p.OtherReached) > 0 {
		fmt.Fprintf(w, "\nof other parts were reached: %s\n", countsText(p.OtherReached))
	}
}

func (p *Limits) writeTable(w io.Writer, head string, rows []Limit) {
	writeSection(w, head+"\tVALUE\tFROM\tDEFAULT\tUSED\tLARGEST\tCALLER\tREACHED\tUNIT\tFLAG", len(rows), func(i int) []any {
		l := &rows[i]
		return []any{
			l.Limit, l.value(l.Value), l.From, l.value(l.Default), known(l.Used), known(l.Largest), dash(l.Caller), known(l.Reached),
			l.Unit, dash(l.Flag),
		}
	})
}

// known formats a number that may be unknown.
func known[T int | uint64](n *T) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func writeRateLimits(w io.Writer, limits []RateLimit) {
	writeSection(w, "RATE LIMIT\tUSED\tALLOWED\tREFUSED\tBUCKETS", len(limits), func(i int) []any {
		l := &limits[i]
		return []any{l.Name, fmt.Sprintf("%.0f %%", 100*l.Used), l.Allowed, l.Refused, l.Buckets}
	})
}
