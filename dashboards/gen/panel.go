package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// prom is the data source of a dashboard's variable.
var prom = reference{Type: "prometheus", UID: "${datasource}"}

// A sheet is a dashboard without the positions of its panels.
type sheet struct {
	key, title, description string
	rows                    []row
}

// A row has a title and panels side by side.
type row struct {
	title  string
	panels []panel
}

// query returns a range query. The legend is a template with {{labels}}. Series without a tool have the
// legend "no tool".
func query(expr, legend string) target {
	for _, label := range []string{"tool", "gen_ai_tool_name"} {
		if strings.Contains(legend, "{{"+label+"}}") {
			expr = fmt.Sprintf("label_replace(%s, %q, \"no tool\", %q, \"\")", expr, label, label)
		}
	}
	return target{Datasource: prom, EditorMode: "code", Expr: expr, LegendFormat: legend, Format: "time_series", Range: true}
}

// traced returns a range query with exemplars, which link to traces.
func traced(expr, legend string) target {
	t := query(expr, legend)
	t.Exemplar = true
	return t
}

// latest returns a query for the end of the time range only.
func latest(expr, legend string) target {
	t := query(expr, legend)
	t.Range, t.Instant = false, true
	return t
}

// Colors of values.
const good, odd, wrong = "green", "orange", "red"

// rising returns thresholds for values that are worse the higher they are.
func rising(from, bad float64) thresholds { return steps(good, odd, from, wrong, bad) }

// falling returns thresholds for values that are worse the lower they are.
func falling(from, bad float64) thresholds { return steps(wrong, odd, bad, good, from) }

// above returns thresholds for values that are wrong above a limit.
func above(limit float64) thresholds {
	return thresholds{"absolute", []step{{Color: good}, {wrong, &limit}}}
}

// never returns thresholds for values that are never wrong.
func never() thresholds { return thresholds{"absolute", []step{{Color: good}}} }

func steps(lowest, second string, from2 float64, third string, from3 float64) thresholds {
	return thresholds{"absolute", []step{{Color: lowest}, {second, &from2}, {third, &from3}}}
}

// graph returns a panel with values over time.
func graph(title, description, unit string, limits thresholds, targets ...target) panel {
	show := "off"
	if len(limits.Steps) > 1 {
		show = "dashed"
	}
	p := shown("timeseries", title, description, unit, limits, targets)
	zero := 0.0
	p.FieldConfig.Defaults.Min = &zero
	p.FieldConfig.Defaults.Color = map[string]any{"mode": "palette-classic"}
	p.FieldConfig.Defaults.Custom = map[string]any{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
		"stacking":        map[string]any{"mode": "none", "group": "A"},
		"thresholdsStyle": map[string]any{"mode": show},
	}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// stacked returns a graph of parts of a whole.
func stacked(title, description, unit string, limits thresholds, targets ...target) panel {
	p := graph(title, description, unit, limits, targets...)
	p.FieldConfig.Defaults.Custom["stacking"] = map[string]any{"mode": "normal", "group": "A"}
	p.FieldConfig.Defaults.Custom["fillOpacity"] = 40
	return p
}

// signed returns the graph with negative values.
func (p panel) signed() panel {
	p.FieldConfig.Defaults.Min = nil
	return p
}

// number returns a panel with one large value.
func number(title, description, unit string, limits thresholds, targets ...target) panel {
	p := shown("stat", title, description, unit, limits, targets)
	p.GridPos = gridPos{W: 4, H: 4}
	p.Options = map[string]any{
		"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
		"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
	return p
}

// list returns a panel with a table of the latest values.
func list(title, description, unit string, limits thresholds, targets ...target) panel {
	for i := range targets {
		targets[i].Format = "table"
	}
	p := shown("table", title, description, unit, limits, targets)
	p.FieldConfig.Defaults.Custom = map[string]any{"align": "auto", "inspect": false, "cellOptions": map[string]any{"type": "color-text"}}
	p.Options = map[string]any{"frameIndex": 0, "showHeader": true, "cellHeight": "sm"}
	return p
}

// heat returns a heatmap over time of the buckets of a histogram.
func heat(title, description, unit string, targets ...target) panel {
	for i := range targets {
		targets[i].Format = "heatmap"
	}
	p := shown("heatmap", title, description, "short", never(), targets)
	p.FieldConfig.Defaults.Custom = map[string]any{"scaleDistribution": map[string]any{"type": "linear"}}
	p.Options = map[string]any{
		"calculate": false, "cellGap": 1, "showValue": "never",
		"color":        map[string]any{"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange", "reverse": false},
		"exemplars":    map[string]any{"color": "rgba(255,0,255,0.7)"},
		"filterValues": map[string]any{"le": 1e-9},
		"legend":       map[string]any{"show": true},
		"tooltip":      map[string]any{"mode": "single", "yHistogram": true},
		"yAxis":        map[string]any{"unit": unit, "axisPlacement": "left", "reverse": false},
	}
	return p
}

// wide returns the panel with another width. A row has the width 24.
func (p panel) wide(w int) panel {
	p.GridPos.W = w
	return p
}

func shown(kind, title, description, unit string, limits thresholds, targets []target) panel {
	for i := range targets {
		targets[i].RefID = string(rune('A' + i))
	}
	return panel{
		Type: kind, Title: title, Description: description, Datasource: &prom, Targets: targets, GridPos: gridPos{W: 8, H: 8},
		FieldConfig: &fieldConfig{
			Defaults:  field{Unit: unit, Thresholds: limits, Color: map[string]any{"mode": "thresholds"}, NoValue: "-"},
			Overrides: []any{},
		},
	}
}

// lay sets the positions and ids of all panels.
func lay(rows []row) (all []panel) {
	const width = 24
	y, open := 0, false
	for _, r := range rows {
		all = append(all, panel{
			ID: len(all) + 1, Type: "row", Title: r.title, GridPos: gridPos{Y: y, W: width, H: 1}, Collapsed: &open,
		})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.GridPos.W > width {
				x, y, height = 0, y+height, 0
			}
			p.ID, p.GridPos.X, p.GridPos.Y = len(all)+1, x, y
			x, height = x+p.GridPos.W, max(height, p.GridPos.H)
			all = append(all, p)
		}
		y += height
	}
	return all
}

// dashboard returns the dashboard of a sheet.
func (s sheet) dashboard(c *config) dashboard {
	tag := slug(c.Name)
	return dashboard{
		UID: tag + "-" + s.key, Title: c.Name + ": " + s.title, Description: s.description, Tags: []string{"mcp", tag},
		Timezone: "browser", Editable: true, GraphTooltip: 1, Refresh: "30s", SchemaVersion: schemaVersion,
		Time:       timeRange{"now-6h", "now"},
		Templating: templating{filters(c)},
		Links: []link{
			{Title: c.Name, Type: "dashboards", Tags: []string{tag}, Icon: "external link", AsDropdown: true, IncludeVars: true, KeepTime: true},
			{Title: "Runbook", Type: "link", Tags: []string{}, Icon: "doc", URL: c.Runbook, TargetBlank: true},
		},
		Panels: lay(s.rows),
	}
}

// filters returns the variables of a dashboard.
func filters(c *config) []variable {
	s := source{selector: c.Selector}
	values := func(name, label, metric string, by ...matcher) variable {
		query := "label_values(" + s.with(metric, by...) + ", " + name + ")"
		return variable{
			Name: label, Label: label, Type: "query", Query: map[string]any{"query": query, "refId": label, "qryType": 1},
			Datasource: &prom, Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".*",
			Current: map[string]any{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		}
	}
	const info, operation = telemetry.MetricBuildInfo, telemetry.MetricOperationDuration + "_count"
	return []variable{
		{
			Name: "datasource", Label: "Prometheus", Type: "datasource", Query: "prometheus", Refresh: 1,
			Current: map[string]any{"selected": true, "text": "default", "value": "default"},
		},
		values("namespace", "namespace", info),
		values("job", "job", info, inNamespace),
		values("instance", "instance", info, inNamespace, ofJob),
		values("mcp_method_name", "method", operation, inNamespace, ofJob, onInstance),
		values("gen_ai_tool_name", "tool", operation, inNamespace, ofJob, onInstance),
	}
}

func (d dashboard) encode() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // people read > and <
	enc.SetIndent("", "  ")
	err := enc.Encode(d)
	return out.Bytes(), err
}
