// The fields that narrow a list of requests: those of debug/traces, by their whole texts.

import { el } from './dom.js';

const fields = { tool: 'Tool', client: 'Client', client_version: 'Version', principal: 'Principal', concurrency_class: 'Class' };

// makeFilters fills a form with the fields, and calls changed when one of them gets another text.
export function makeFilters(form, changed) {
  const inputs = Object.entries(fields).map(([name, title]) => {
    const input = el('input', { name, type: 'search', size: '12', autocomplete: 'off', spellcheck: 'false', onchange: changed });
    form.append(el('label', {}, title, ' ', input));
    return input;
  });
  form.onsubmit = (event) => event.preventDefault(); // Enter has changed a field before
  const set = () => inputs.filter((input) => input.value.trim() !== '').map((input) => [input.name, input.value.trim()]);
  return {
    // matches reports whether a request has the texts. A minus sign stands for none.
    matches: (t) => set().every(([name, text]) => (t[name] || '-') === text),
    // query is that of debug/traces, behind others.
    query: () => set().map(([name, text]) => `&${name}=${encodeURIComponent(text)}`).join(''),
  };
}
