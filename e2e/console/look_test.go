package console

import (
	"context"
	"fmt"

	"github.com/chromedp/chromedp"
)

// click clicks on the first thing that an expression finds.
func click(expression string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool](fmt.Sprintf("%s.click() || true", expression))(ctx, target)
		return chromedp.Void{}, err
	}
}

// tooWide names the elements that reach beyond the window.
const tooWide = `[...document.querySelectorAll('body *')].filter((n) => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest('.scroll, .hidden'))
	.slice(0, 5).map((n) => n.tagName + '.' + n.className).join(', ')`

// lowContrast names the texts whose contrast to their background is below 4.5.
const lowContrast = `(() => {
	const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
	const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const behind = (n) => {
		for (; n; n = n.parentElement) {
			const c = parse(getComputedStyle(n).backgroundColor);
			if (c.length === 3 || c[3] === 1) return c;
		}
		return [255, 255, 255];
	};
	const low = new Set();
	for (const n of document.querySelectorAll('body *')) {
		const own = [...n.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
		const box = n.getBoundingClientRect();
		if (!own || !box.width || n.closest('.hidden, .skip, script, noscript')) continue;
		let opacity = 1;
		for (let up = n; up; up = up.parentElement) opacity *= Number(getComputedStyle(up).opacity);
		const back = behind(n);
		const text = parse(getComputedStyle(n).color).slice(0, 3).map((v, i) => v * opacity + back[i] * (1 - opacity));
		const [a, b] = [light(text), light(back)].sort((x, y) => y - x);
		const contrast = (a + 0.05) / (b + 0.05);
		if (contrast < 4.5) low.add(n.tagName + '.' + n.className + ' ' + n.textContent.slice(0, 20) + ' ' + contrast.toFixed(2));
	}
	return [...low];
})()`

// fakeSource replaces the stream by one that brings frames as fast as the page takes them,
// each with other requests, sessions, tools and traces than the one before.
const fakeSource = `
	window.EventSource = class extends EventTarget {
		constructor() { super(); window.source = this; }
		close() {}
	};
	let seq = 0;
	function frame() {
		seq++;
		const many = (n, make) => ({rows: Array.from({length: n}, (_, i) => make(seq * 100 + i)), left_out: 7});
		const counts = (...names) => Object.fromEntries(names.map((n, i) => [n, seq * (i + 1)]));
		const request = (i) => ({id: String(i), method: 'tools/call', tool: 'tool' + i % 70, state: 'running', age_seconds: i % 60,
			client: 'client ' + i, client_version: '1', protocol_version: '2026-07-28', transport: 'http', remote: '192.0.2.1:' + i, trace_id: String(i).padStart(32, '0')});
		return {
			seq, at: new Date(1.8e12 + seq * 1000).toISOString(), rates: counts('admitted', 'sent', 'errors', 'cancelled', 'dropped', 'rejected'),
			in_flight: {running: 20}, oldest_age_seconds: seq, requests: many(20, request), subscriptions: many(20, request),
			tasks: many(0), outbound: many(0),
			shares: Array.from({length: 9}, (_, i) => ({limit: 'class:c' + (seq * 100 + i), size: 20, used: i, holding: i, waiting: 2, largest: i, caller: '192.0.2.' + i})),
			sessions: many(20, (i) => ({session: 'S' + i, transport: 'http', remote: '192.0.2.1:' + i, client: 'c' + i, age_seconds: 1, idle_seconds: 0, requests: 1})),
			sessions_by_transport: {http: 27}, sessions_streaming: 1,
			tools: many(20, (i) => ({method: 'tools/call', tool: 'tool' + i, calls: i, errors: 1, window_seconds: 60, rate: 1, p50: .001, p95: .01, p99: .1})),
			ended_streams: many(20, (i) => ({...request(i), kind: 'answer', reason: 'peer_left', request_id: String(i), at: new Date(1.8e12 + i).toISOString()})),
			disconnects: {window_seconds: 600, count: seq, clients: [{client: 'c' + seq, client_version: '1', count: seq}], clients_left_out: 3},
			totals: {admitted: seq, sent: seq, stored: 0, cancelled: counts('client_cancel', 'deadline'), dropped: counts('cancelled'), rejected: counts('overload')},
			errors: seq, kept: {error: 64},
			traces: {rows: many(20, (i) => ({...request(i), request_id: String(i), class: ['error', 'cancelled', 'recent', 'slow'][i % 4], at: new Date().toISOString(), seconds: .1, phases: []})).rows},
		};
	}
	window.pushUpTo = (n) => {
		while (seq < n) window.source.dispatchEvent(new MessageEvent('frame', {data: JSON.stringify(frame())}));
		return true;
	};
`
