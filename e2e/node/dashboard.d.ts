// What a dashboard in dashboards/ may look like, in Grafana's own types. Those of panels
// are not part of the type of dashboards there, which leaves options and queries open.
import type { Dashboard, DataQuery, FieldConfig, Panel, RowPanel } from '@grafana/schema';
import type * as heatmap from 'composable/heatmap/panelcfg/x/types.gen';
import type * as stat from 'composable/stat/panelcfg/x/types.gen';
import type * as table from 'composable/table/panelcfg/x/types.gen';
import type * as timeseries from 'composable/timeseries/panelcfg/x/types.gen';

// JSON has the values of enums and not their names.
type Plain<T> = T extends string
	? `${T}`
	: T extends (infer U)[]
		? Plain<U>[]
		: T extends object
			? { [K in keyof T]: Plain<T[K]> }
			: T;

// The query of a Prometheus data source, whose type is in its plugin.
interface Query extends DataQuery {
	expr: string;
	legendFormat: string;
	format: 'time_series' | 'table' | 'heatmap';
	instant: boolean;
	range: boolean;
	exemplar: boolean;
	editorMode: 'code' | 'builder';
}

interface Of<Type extends string, Options, Custom> extends Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> {
	type: Type;
	options: Options;
	fieldConfig: { defaults: Omit<FieldConfig, 'custom'> & { custom?: Custom }; overrides: never[] };
	targets: Query[];
}

// tsc looks at every property only if it can tell by the type which one of these is meant.
interface Row extends Omit<RowPanel, 'panels'> {
	type: 'row';
	panels?: never[];
}

type AnyPanel =
	| Row
	| Of<'timeseries', timeseries.Options, timeseries.FieldConfig>
	| Of<'stat', stat.Options, never>
	| Of<'table', table.Options, table.FieldConfig>
	| Of<'heatmap', heatmap.Options, heatmap.FieldConfig>;

export type Board = Plain<Omit<Dashboard, 'panels'> & { panels: AnyPanel[] }>;
