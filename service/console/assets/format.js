// Numbers as people read them.

// duration writes seconds with three digits at most.
export function duration(s) {
  if (!Number.isFinite(s)) return '–';
  const sign = s < 0 ? '−' : '';
  s = Math.abs(s);
  if (s === 0) return '0';
  if (s < 1e-3) return `${sign}${digits(s * 1e6)} µs`;
  if (s < 0.9995) return `${sign}${digits(s * 1e3)} ms`;
  if (s < 60) return `${sign}${digits(s)} s`;
  if (s < 3600) return `${sign}${Math.floor(s / 60)} m ${pad(Math.floor(s % 60))} s`;
  if (s < 86400) return `${sign}${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} m`;
  return `${sign}${Math.floor(s / 86400)} d ${pad(Math.floor((s % 86400) / 3600))} h`;
}

function digits(x) {
  if (x >= 100) return x.toFixed(0);
  if (x >= 10) return x.toFixed(1).replace(/\.0$/, '');
  return x.toFixed(2).replace(/\.?0+$/, '');
}

// age writes seconds with one decimal below a minute, so that it does not jump about.
export function age(s) {
  return s < 60 ? `${s.toFixed(1)} s` : duration(s);
}

export function rate(x) {
  if (x === 0) return '0';
  if (x < 10) return x.toFixed(1);
  return count(Math.round(x));
}

export function count(n) {
  if (n < 10000) return String(n);
  if (n < 1e6) return `${digits(n / 1e3)}k`;
  if (n < 1e9) return `${digits(n / 1e6)}M`;
  return `${digits(n / 1e9)}G`;
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1048576) return `${digits(n / 1024)} KiB`;
  return `${digits(n / 1048576)} MiB`;
}

export function clock(date) {
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

function pad(n) {
  return String(n).padStart(2, '0');
}

// words joins what there is.
export function words(...parts) {
  return parts.filter(Boolean).join(' ');
}
