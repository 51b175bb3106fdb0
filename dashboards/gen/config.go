package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A config selects the servers for dashboards and rules, and has their objectives. The zero value of a
// field stands for its default.
type config struct {
	// Name is in the titles of the dashboards and in their links.
	Name string `yaml:"name"`
	// Selector has matchers of PromQL for all series, such as job="weather".
	Selector string `yaml:"selector,omitempty"`
	// Runbook is the address of docs/runbook.md, or of a page with the same headings.
	Runbook string `yaml:"runbook"`
	// RequestTimeout is the longest deadline of a request: the server's --max-request-timeout.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// CertificateLeft is the time before the end of the server's certificate in which
	// VitrineCertificateExpires fires.
	CertificateLeft time.Duration `yaml:"certificate_left"`
	Minimum         minimum       `yaml:"minimum"`
	// Objective is the objective of every tool, and of all requests that are no tool calls.
	Objective objective `yaml:"objective"`
	// Tools has the objectives of single tools. Empty fields are those of Objective.
	Tools map[string]objective `yaml:"tools,omitempty"`
}

// A minimum is the number of requests and failures of a tool in the long window of an alert below
// which the alert does not fire.
type minimum struct {
	Requests int `yaml:"requests"`
	Failures int `yaml:"failures"`
}

// An objective is a service level objective of requests. Faults of callers do not count.
type objective struct {
	// Availability is the share of requests that must not fail, in percent.
	Availability float64 `yaml:"availability,omitempty"`
	// Latency is how long a request may take. It is a bound of the buckets of
	// mcp_server_operation_duration_seconds. A negative one means that there is no objective.
	Latency time.Duration `yaml:"latency,omitempty"`
	// Fast is the share of the requests without an error that must not take longer, in
	// percent.
	Fast float64 `yaml:"fast,omitempty"`
}

func defaults() config {
	return config{
		Name:            "Vitrine",
		Runbook:         "https://github.com/vitrine-mcp/vitrine/blob/main/docs/runbook.md",
		RequestTimeout:  15 * time.Minute,
		CertificateLeft: 7 * 24 * time.Hour,
		Minimum:         minimum{Requests: 20, Failures: 3},
		Objective:       objective{Availability: 99.9, Latency: 5 * time.Second, Fast: 95},
	}
}

// readConfig reads a configuration in YAML. An unknown field is an error.
func readConfig(text []byte) (config, error) {
	c := defaults()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, err
	}
	return c, c.check()
}

// minTarget is the lowest target in percent whose budget can be spent 14.4 times as fast as allowed.
const minTarget = 94

func (c *config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if slug(c.Name) == "" {
		fault("name: %q has no letter", c.Name)
	}
	if len(slug(c.Name)) > maxSlug {
		fault("name: %q is longer than %d characters", c.Name, maxSlug)
	}
	if c.RequestTimeout <= 0 {
		fault("request_timeout: %v is not positive", c.RequestTimeout)
	}
	if c.CertificateLeft <= 0 {
		fault("certificate_left: %v is not positive", c.CertificateLeft)
	}
	if c.Minimum.Requests < 1 || c.Minimum.Failures < 1 {
		fault("minimum: both numbers must be positive")
	}
	check := func(where string, o objective) {
		for name, target := range map[string]float64{"availability": o.Availability, "fast": o.Fast} {
			if target < minTarget || target >= 100 {
				fault("%s: %s must be at least %d and less than 100 percent, not %v", where, name, minTarget, target)
			}
		}
		if bounds := catalogue[telemetry.MetricOperationDuration].Buckets; o.Latency > 0 && !slices.Contains(bounds, o.Latency.Seconds()) {
			fault("%s: latency must be one of the buckets (%v seconds), not %v", where, bounds, o.Latency)
		}
	}
	check("objective", c.Objective)
	for _, tool := range c.toolNames() {
		if tool == "" || strings.ContainsAny(tool, "\"\\\n") {
			fault("tools: %q is no name of a tool", tool)
		}
		check("tools: "+tool, c.objectiveOf(tool))
	}
	return errors.Join(faults...)
}

// toolNames returns the sorted names of the tools with their own objective.
func (c *config) toolNames() (names []string) {
	for tool, o := range c.Tools {
		if o != (objective{}) {
			names = append(names, tool)
		}
	}
	slices.Sort(names)
	return names
}

// objectiveOf returns the objective of a tool with all fields.
func (c *config) objectiveOf(tool string) objective {
	o := c.Tools[tool]
	if o.Availability == 0 {
		o.Availability = c.Objective.Availability
	}
	if o.Latency == 0 {
		o.Latency = c.Objective.Latency
	}
	if o.Fast == 0 {
		o.Fast = c.Objective.Fast
	}
	return o
}

// source returns the common part of the selectors of rules.
func (c *config) source() source { return source{selector: c.Selector, service: slug(c.Name)} }

// budget returns the share of failures that a target in percent allows.
func budget(target float64) string {
	return strconv.FormatFloat(float64(int64((100-target)*1e6+0.5))/1e8, 'f', -1, 64)
}

// bound matches a bucket in the formats of Prometheus 2 and 3: 5 and 5.0.
func bound(d time.Duration) matcher {
	text := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	if strings.Contains(text, ".") {
		return is("le", text)
	}
	return is("le", text, text+".0")
}

// maxSlug leaves room for the rest of a dashboard's uid, which has 40 characters.
const maxSlug = 24

// slug makes a name for links and groups.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(words, "-")
}
