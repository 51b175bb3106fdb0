package telemetry

import (
	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// ownLimits returns the limits of what telemetry keeps, as they were set by options. Their order is that of
// docs/limits.md.
func (t *Telemetry) ownLimits() []report.Limit {
	if !t.Enabled() {
		return nil
	}
	row := func(name, unit, about string, value, standard int) report.Limit {
		l := auth.Limit{Name: name, Unit: unit, About: about, Value: max(value, 0), Default: standard}
		return limitRow(&l)
	}
	bounds, standard := t.recent.bounds, Recent{}.withDefaults()
	return []report.Limit{
		row("recent_traces", "requests", "ended requests that are kept, of each class", bounds.Traces, standard.Traces),
		row("recent_spans", "spans", "spans of one recent request", bounds.Spans, standard.Spans),
		row("recent_total_spans", "spans", "spans of all recent requests", bounds.TotalSpans, standard.TotalSpans),
		row(limitLiveListeners, "consoles", "consoles that are open at once", t.live.limit, defaultLiveListeners),
		row("max_change_bytes", "bytes", "the history in which /debug/changes looks for changes", bounds.ChangeBytes, changes.DefaultBytes),
		row(limitTenants, "tenants", "tenants that have a value of their own in the label tenant", t.maxTenants, 0),
	}
}

// partLimits returns the limits of authenticators, of the file of rules, and of the audit, where a snapshot
// has such.
func partLimits(snap *Snapshot) (rows []report.Limit) {
	for _, list := range [][]auth.Limit{snap.Auth.Limits, snap.Policy.Limits} {
		for i := range list {
			rows = append(rows, limitRow(&list[i]))
		}
	}
	waiting, size := 0, 0
	for i := range snap.Audit {
		waiting, size = max(waiting, snap.Audit[i].Waiting), snap.Audit[i].MaxRecords
	}
	if size > 0 {
		l := auth.Limit{Name: limitAudit, Unit: "records", About: "records of the audit that wait for one sink", Value: size, Default: audit.DefaultRecords}
		row := limitRow(&l)
		row.Used = &waiting
		rows = append(rows, row)
	}
	return rows
}

func limitRow(l *auth.Limit) report.Limit {
	row := report.Limit{
		Limit: l.Name, Value: float64(l.Value), Default: float64(l.Default), From: report.LimitDefault, Unit: l.Unit, About: l.About,
	}
	if l.Value != l.Default {
		row.From = report.LimitSet
	}
	return row
}
