package main

// The types below are the used parts of Grafana's dashboards. A test in e2e compares the generated
// files with Grafana's types.

// schemaVersion is the version of Grafana 11.0. Later versions of Grafana migrate it.
const schemaVersion = 39

type dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	Timezone      string     `json:"timezone"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"`
	Refresh       string     `json:"refresh"`
	SchemaVersion int        `json:"schemaVersion"`
	Time          timeRange  `json:"time"`
	Templating    templating `json:"templating"`
	Links         []link     `json:"links"`
	Panels        []panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

// A variable is a list of values to choose from.
type variable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Query      any            `json:"query"`
	Datasource *reference     `json:"datasource,omitempty"`
	Refresh    int            `json:"refresh"`
	Sort       int            `json:"sort,omitempty"`
	Multi      bool           `json:"multi,omitempty"`
	IncludeAll bool           `json:"includeAll,omitempty"`
	AllValue   string         `json:"allValue,omitempty"`
	Current    map[string]any `json:"current"`
}

// A reference names a data source.
type reference struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	Icon        string   `json:"icon"`
	Tooltip     string   `json:"tooltip"`
	URL         string   `json:"url,omitempty"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// A panel is one panel, or the title of a row of panels.
type panel struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	GridPos     gridPos        `json:"gridPos"`
	Datasource  *reference     `json:"datasource,omitempty"`
	Targets     []target       `json:"targets,omitempty"`
	FieldConfig *fieldConfig   `json:"fieldConfig,omitempty"`
	Options     map[string]any `json:"options,omitempty"`
	Links       []link         `json:"links,omitempty"`
	// For rows.
	Collapsed *bool   `json:"collapsed,omitempty"`
	Panels    []panel `json:"panels,omitempty"`
}

type gridPos struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// A target is a query and the format of its result.
type target struct {
	RefID        string    `json:"refId"`
	Datasource   reference `json:"datasource"`
	EditorMode   string    `json:"editorMode"`
	Expr         string    `json:"expr"`
	LegendFormat string    `json:"legendFormat"`
	Format       string    `json:"format"`
	Instant      bool      `json:"instant"`
	Range        bool      `json:"range"`
	Exemplar     bool      `json:"exemplar"`
}

type fieldConfig struct {
	Defaults  field `json:"defaults"`
	Overrides []any `json:"overrides"`
}

// A field is the format of values.
type field struct {
	Unit       string         `json:"unit"`
	Min        *float64       `json:"min,omitempty"`
	Max        *float64       `json:"max,omitempty"`
	Color      map[string]any `json:"color"`
	Thresholds thresholds     `json:"thresholds"`
	Custom     map[string]any `json:"custom,omitempty"`
	NoValue    string         `json:"noValue,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

// A step is the color from a value upwards. The lowest step has no value.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}
