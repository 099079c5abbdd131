"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const NO_VARIANT = "(none)";
  const SHOWN_AT_FIRST = 5; // checkpoints, where there are more
  const CARDS_AT_ONCE = 12;
  const PALETTES = {
    light: ["#0072b2", "#d55e00", "#12876a", "#b0478a", "#8a6d00", "#3d7ea6", "#6a4fb3", "#7a4b2a"],
    dark: ["#56b4e9", "#f28e4c", "#3fc79a", "#e38ac0", "#e0c34a", "#9ecbe8", "#b3a0ee", "#d0a17c"],
  };
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon", "hexagon", "triangle-down", "star-diamond", "bowtie"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const KINDS = {
    own: "a fake of its own image", other: "a fake of another image", genuine: "an original", distractor: "a distractor",
  };
  root.classList.add("scripted");

  // ------------------------------------------------------------ elements

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const nameOf = (checkpoint) => page.names[page.checkpoints.indexOf(checkpoint)] ?? checkpoint;
  const byId = (id) => document.getElementById(id);
  const formats = [0, 1].map((digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const shownNumber = (value, digits = 1) => formats[digits].format(value);
  const shownValue = (value) => {
    if (!value) return "–";
    const bounds = value[1] === null ? "" : ` [${shownNumber(value[1])}, ${shownNumber(value[2])}]`;
    return shownNumber(value[0]) + bounds;
  };
  // Plotly reads tags such as <b> and <a> in its texts; a name is none of them
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  // ------------------------------------------------------------ theme

  let printing = false;
  const themeNames = ["auto", "light", "dark"];
  const isDark = () => !printing && (root.dataset.theme === "dark" || (root.dataset.theme === "auto" && dark.matches));
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const setTheme = (name) => {
    root.dataset.theme = name;
    byId("theme-name").textContent = name;
    byId("theme").setAttribute("aria-label", `Colours: ${name === "auto" ? "as the system" : name}; press to change`);
    paint();
  };
  byId("theme").addEventListener("click", () => {
    const next = themeNames[(themeNames.indexOf(root.dataset.theme) + 1) % themeNames.length];
    setTheme(next);
  });
  dark.addEventListener("change", () => paint());

  // hue by number; many checkpoints are steps of one scale, so that their order can be seen
  const swatch = (number, count) => {
    const palette = PALETTES[isDark() ? "dark" : "light"];
    if (count <= palette.length) return palette[number % palette.length];
    const share = number / Math.max(1, count - 1);
    return isDark() ? `hsl(${260 - 215 * share} 70% ${70 - 5 * share}%)` : `hsl(${265 - 235 * share} 65% ${34 + 6 * share}%)`;
  };
  const checkpointColour = (name) => swatch(page.checkpoints.indexOf(name), page.checkpoints.length);

  // ------------------------------------------------------------ checkpoints shown

  const visible = new Set();
  const firstChoice = () => {
    const last = page.checkpoints.length - 1;
    if (last < SHOWN_AT_FIRST) return page.checkpoints;
    return Array.from({ length: SHOWN_AT_FIRST }, (_, place) => page.checkpoints[Math.round((place * last) / (SHOWN_AT_FIRST - 1))]);
  };
  firstChoice().forEach((name) => visible.add(name));
  const chips = new Map();
  const updateChips = () => {
    for (const [name, chip] of chips) {
      chip.setAttribute("aria-pressed", String(visible.has(name)));
      chip.style.setProperty("--swatch", checkpointColour(name));
    }
    byId("chips-label").textContent = visible.size === page.checkpoints.length ? "Checkpoints" : `${visible.size} of ${page.checkpoints.length} checkpoints`;
  };
  const changeVisible = () => { updateChips(); filterTable(); drawAll(); };
  if (page.checkpoints.length > 1) {
    byId("chips-bar").hidden = false;
    for (const name of page.checkpoints) {
      const chip = make("button", { type: "button", class: "chip" }, make("i", { "aria-hidden": "true" }), nameOf(name));
      chip.addEventListener("click", () => {
        if (visible.has(name) && visible.size > 1) visible.delete(name); else visible.add(name);
        changeVisible();
      });
      chips.set(name, chip);
      byId("chips").append(chip);
    }
    byId("all-checkpoints").addEventListener("click", () => { page.checkpoints.forEach((name) => visible.add(name)); changeVisible(); });
  }

  // ------------------------------------------------------------ figures

  const layoutOf = (changes) => {
    const ink = printing ? "#000" : colour("ink"), soft = printing ? "#444" : colour("soft");
    const axis = { gridcolor: printing ? "#ddd" : colour("grid"), linecolor: colour("line"), zeroline: false, automargin: true, tickfont: { color: soft, size: 12 }, fixedrange: true };
    const { xaxis = {}, yaxis = {}, ...rest } = changes;
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, showlegend: false,
      font: { family: getComputedStyle(document.body).fontFamily, color: ink, size: 13 },
      margin: { l: 46, r: 12, t: 8, b: 44 }, hovermode: "closest",
      hoverlabel: { bgcolor: colour("card"), bordercolor: soft, font: { color: ink, size: 13 }, align: "left" },
      ...rest,
      xaxis: { ...axis, ...xaxis, title: { text: plain(xaxis.label ?? ""), font: { color: soft, size: 12.5 }, standoff: 8 } },
      yaxis: { ...axis, ...yaxis, title: { text: plain(yaxis.label ?? ""), font: { color: soft, size: 12.5 }, standoff: 6 } },
    };
  };
  const whiskers = (values, tint, thickness = 1.2) => {
    if (!values.some((value) => value && value[1] !== null)) return undefined;
    return {
      type: "data", symmetric: false, color: tint, thickness, width: 0,
      array: values.map((value) => (value && value[2] !== null ? value[2] - value[0] : 0)),
      arrayminus: values.map((value) => (value && value[1] !== null ? value[0] - value[1] : 0)),
    };
  };
  const distractorsNote = (change) => (change.distractors ? `, ${shownNumber(change.distractors, 0)} distractors` : "");
  const described = (change) =>
    `<b>${plain(change.variant)}</b>${distractorsNote(change)}<br>${plain(nameOf(change.checkpoint))}<br>` +
    `R@1 ${shownValue(change.before)} → ${shownValue(change.after)}` +
    (change.drop ? `<br>drop rate ${shownValue(change.drop)}` : "") + (change.fooled ? `<br>IR@1 ${shownValue(change.fooled)}` : "");

  const ROW = 19, GAP = 30;
  const drawChanges = (figure, panel) => {
    const shown = panel.changes.filter((change) => visible.has(change.checkpoint));
    const place = [], annotations = [];
    let y = 0, above = null;
    for (const change of shown) {
      const group = `${change.variant}${distractorsNote(change)}`;
      if (group !== above) {
        y += above === null ? GAP : GAP * 1.1;
        annotations.push({ x: 0, xref: "paper", xanchor: "left", y: y - ROW * 0.85, yanchor: "middle", text: `<b>${plain(group)}</b>`, showarrow: false, font: { size: 12.5, color: colour("ink") } });
        above = group;
      } else y += ROW;
      place.push(y);
    }
    const traces = [];
    for (const name of page.checkpoints.filter((one) => visible.has(one))) {
      const rows = shown.map((change, number) => [change, place[number]]).filter(([change]) => change.checkpoint === name);
      if (!rows.length) continue;
      const tint = checkpointColour(name);
      const line = { x: [], y: [] };
      for (const [change, at] of rows) {
        if (change.before) { line.x.push(change.before[0], change.after[0], null); line.y.push(at, at, null); }
      }
      traces.push({ ...line, mode: "lines", line: { color: tint, width: 2.5 }, opacity: 0.35, hoverinfo: "skip" });
      const common = { y: rows.map(([, at]) => at), text: rows.map(([change]) => described(change)), hovertemplate: "%{text}<extra></extra>", mode: "markers", name };
      const before = rows.map(([change]) => change.before), after = rows.map(([change]) => change.after);
      traces.push({ ...common, x: before.map((value) => value && value[0]), error_x: whiskers(before, tint), marker: { symbol: "circle-open", size: 9, color: tint, line: { width: 2 } } });
      traces.push({ ...common, x: after.map((value) => value && value[0]), error_x: whiskers(after, tint), marker: { size: 9, color: tint } });
    }
    const height = y + GAP;
    return {
      traces,
      layout: layoutOf({
        height: height + 52, annotations, margin: { l: 8, r: 12, t: 4, b: 46 },
        xaxis: { label: figure.x_label, range: rangeOf(shown.flatMap((change) => [change.before, change.after])) },
        yaxis: { range: [height, 0], visible: false },
      }),
      summary: `${panel.title}. R@1 before and after ${shown.length} attacks. ` + shown.slice(0, 12).map((c) => `${nameOf(c.checkpoint)}, ${c.variant}: ${shownValue(c.before)} to ${shownValue(c.after)}`).join("; ") + ".",
    };
  };
  const rangeOf = (values) => {
    const bounds = values.filter(Boolean).flatMap((value) => [value[0], value[1] ?? value[0], value[2] ?? value[0]]);
    if (!bounds.length) return [0, 100];
    const low = Math.min(...bounds), high = Math.max(...bounds), edge = Math.max(1, (high - low) * 0.06);
    return [low - edge < 12 ? Math.min(0, low - edge / 2) : low - edge, high + edge];
  };
  const symbolOf = (variant) => SYMBOLS[page.variants.indexOf(variant) % SYMBOLS.length];
  const drawScatter = (figure, panel) => {
    const shown = panel.changes.filter((change) => visible.has(change.checkpoint));
    const traces = page.checkpoints.filter((name) => visible.has(name)).map((name) => {
      const rows = shown.filter((change) => change.checkpoint === name);
      const tint = checkpointColour(name);
      return {
        mode: "markers", name, x: rows.map((change) => change.drop[0]), y: rows.map((change) => change.fooled[0]),
        error_x: whiskers(rows.map((change) => change.drop), tint, 0.8), error_y: whiskers(rows.map((change) => change.fooled), tint, 0.8),
        text: rows.map(described), hovertemplate: "%{text}<extra></extra>",
        marker: { size: 11, color: tint, symbol: rows.map((change) => symbolOf(change.variant)), line: { width: 1, color: colour("card") } },
      };
    });
    const used = page.variants.filter((name) => shown.some((change) => change.variant === name));
    return {
      traces,
      layout: layoutOf({
        height: 380, xaxis: { label: figure.x_label, range: rangeOf(shown.map((change) => change.drop)) },
        yaxis: { label: "IR@1, %", range: rangeOf(shown.map((change) => change.fooled)) },
      }),
      legend: used.map((name) => ({ name, symbol: symbolOf(name), tint: colour("soft") })),
      summary: `${panel.title}. Drop rate against IR@1. ` + shown.slice(0, 12).map((c) => `${nameOf(c.checkpoint)}, ${c.variant}: ${shownValue(c.drop)}, ${shownValue(c.fooled)}`).join("; ") + ".",
    };
  };
  const drawLines = (figure, panel, chosen) => {
    const series = panel.series.filter((one) =>
      (one.checkpoint === null || visible.has(one.checkpoint)) && (one.choice === null || one.choice === chosen.choice));
    const traces = [], legend = [], all = [];
    const variants = series.map((one) => one.variant).filter((name) => name !== null);
    const variantColour = (name) => (name === null ? colour("soft") : swatch(variants.indexOf(name), variants.length));
    series.forEach((one) => {
      const points = one.points.filter((point) => point.values[chosen.metric]);
      if (!points.length) return;
      const isPlain = one.checkpoint === null && one.variant === null;
      const tint = one.checkpoint === null ? variantColour(one.variant) : checkpointColour(one.checkpoint);
      const symbol = one.variant === null ? "circle" : symbolOf(one.variant);
      const values = points.map((point) => point.values[chosen.metric]);
      all.push(...values);
      traces.push({
        mode: "lines+markers", name: one.name, x: points.map((point) => point.x), y: values.map((value) => value[0]),
        error_y: whiskers(values, tint), line: { color: tint, width: 2, dash: isPlain ? "dash" : "solid" }, marker: { size: 8, color: tint, symbol },
        text: points.map((point, number) => `<b>${plain(nameOf(one.name))}</b><br>${plain(figure.x_label)} ${plain(nameOf(String(point.x)))}<br>${plain(figure.metrics[chosen.metric])} ${shownValue(values[number])}`),
        hovertemplate: "%{text}<extra></extra>",
      });
      if (one.checkpoint === null) legend.push({ name: isPlain ? "no attack" : one.name, symbol, tint, line: true, dash: isPlain });
    });
    const summary = `${panel.title}. ${figure.metrics[chosen.metric]} over ${figure.x_label}. ` + traces.slice(0, 8).map((trace) => `${nameOf(trace.name)}: ${trace.x.map((x, i) => `${x}: ${shownNumber(trace.y[i])}`).join(", ")}`).join("; ") + ".";
    const { place, ...axis } = axisOf(figure, traces.flatMap((trace) => trace.x));
    traces.forEach((trace, number) => { trace.x = trace.x.map((x) => place(x, sideways(number, traces.length))); });
    const xaxis = { label: figure.x_label, ...axis };
    return {
      traces, legend,
      layout: layoutOf({ height: 340, xaxis, yaxis: { label: figure.metrics[chosen.metric], range: rangeOf(all) } }),
      summary,
      numbers: { head: figure.x_label, series: series.map((one) => ({ name: one.choice === null ? one.name : `${one.name}`, points: one.points })), metric: chosen.metric },
    };
  };
  // how far a line is moved so that equal ones do not hide each other, in distances of neighbouring places
  const sideways = (number, count) => (count < 2 ? 0 : (number / (count - 1) - 0.5) * Math.min(0.2, 0.05 * (count - 1)));
  const ascending = (xs) => [...new Set(xs)].sort((a, b) => a - b);
  const nearest = (xs, distance, otherwise) => Math.min(...xs.slice(1).map((x, number) => distance(x, xs[number])), otherwise);
  const axisOf = (figure, xs) => {
    if (figure.ticks.length) return nameAxis(figure.ticks);
    return figure.log ? logAxis(ascending(xs)) : linearAxis(ascending(xs));
  };
  const nameAxis = (names) => ({
    range: [-0.35, names.length - 0.65], tickvals: names.map((_, number) => number), ticktext: names.map((name) => plain(nameOf(name))),
    place: (name, aside) => names.indexOf(name) + aside,
  });
  const linearAxis = (xs) => {
    const gap = nearest(xs, (one, other) => one - other, Infinity);
    return { tickvals: xs, place: (x, aside) => (Number.isFinite(gap) ? x + aside * gap : x) };
  };
  // no distractor at all has its place a step before the smallest number, which a logarithm does not give it
  const logAxis = (xs) => {
    const positive = xs.filter((x) => x > 0);
    const step = positive.length > 1 ? positive[1] / positive[0] : 10;
    const at = (x) => (x > 0 ? x : positive[0] / step);
    const ratio = nearest(xs.map(at), (one, other) => one / other, 10);
    const short = (x) => (x >= 1e6 ? `${x / 1e6}M` : x >= 1e3 ? `${x / 1e3}k` : x === 0 ? "none" : String(x));
    return { type: "log", tickvals: xs.map(at), ticktext: xs.map(short), place: (x, aside) => at(x) * ratio ** aside };
  };
  const DRAW = { changes: drawChanges, scatter: drawScatter, lines: drawLines };
  const CONFIG = { displayModeBar: false, responsive: true, staticPlot: false, scrollZoom: false, doubleClick: false };
  const figures = new Map(page.figures.map((figure) => [figure.key, figure]));
  const drawn = new Map(); // element -> redraw
  let plotly = null;

  const GLYPHS = { circle: "●", square: "■", diamond: "◆", "triangle-up": "▲", cross: "✚", x: "✖", star: "★", pentagon: "⬟", hexagon: "⬢", "triangle-down": "▼", "star-diamond": "✦", bowtie: "⧓" };
  const legendOf = (entries) =>
    make("ul", { class: "legend", "aria-label": "Legend" }, ...entries.map((entry) => {
      const glyph = make("span", { "aria-hidden": "true" }, entry.dash ? "╌● " : `${GLYPHS[entry.symbol]} `);
      glyph.style.color = entry.tint;
      return make("li", {}, glyph, entry.name);
    }));
  const tableOf = ({ head, series, metric }) => {
    const places = [...new Set(series.flatMap((one) => one.points.map((point) => point.x)))];
    if (typeof places[0] === "number") places.sort((a, b) => a - b);
    const rows = places.map((place) => make("tr", {}, make("th", { scope: "row" }, typeof place === "number" ? place.toLocaleString("en-US") : nameOf(place)),
      ...series.map((one) => make("td", {}, shownValue(one.points.find((point) => point.x === place)?.values[metric])))));
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The numbers of this figure" }, make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, head), ...series.map((one) => make("th", { scope: "col", class: "n" }, nameOf(one.name))))),
      make("tbody", {}, ...rows)));
  };

  const prepare = (holder) => {
    const figure = figures.get(holder.dataset.figure);
    holder.replaceChildren();
    holder.classList.toggle("single", figure.panels.length === 1);
    const chosen = { metric: null, choice: null };
    const names = Object.keys(figure.metrics).filter((metric) =>
      figure.panels.some((panel) => panel.series.some((one) => one.points.some((point) => metric in point.values))));
    chosen.metric = names[0] ?? null;
    const controls = make("p", { class: "controls script" });
    if (names.length > 1) {
      const segments = make("span", { class: "segments", role: "group", "aria-label": "What is shown" });
      for (const metric of names) {
        const button = make("button", { type: "button", "aria-pressed": String(metric === chosen.metric) }, figure.metrics[metric].replace(", %", ""));
        button.addEventListener("click", () => {
          chosen.metric = metric;
          for (const other of segments.children) other.setAttribute("aria-pressed", String(other === button));
          redraw();
        });
        segments.append(button);
      }
      controls.append(segments);
    }
    const choices = [...new Set(figure.panels.flatMap((panel) => panel.series.map((one) => one.choice)).filter((choice) => choice !== null))];
    if (choices.length) {
      const select = make("select", {}, ...choices.map((choice) => make("option", { value: choice }, choice === NO_VARIANT ? "no attack" : choice)));
      chosen.choice = choices.includes(NO_VARIANT) ? NO_VARIANT : choices[0];
      select.value = chosen.choice;
      select.addEventListener("change", () => { chosen.choice = select.value; redraw(); });
      controls.append(make("label", {}, "Variant ", select));
    }
    if (controls.childElementCount) holder.before(controls);
    const places = figure.panels.map((panel) => {
      const chart = make("div", { role: "img" }), below = make("div");
      holder.append(make("div", { class: "plot" }, make("h4", {}, panel.title), chart, below));
      return { panel, chart, below };
    });
    const redraw = () => {
      for (const { panel, chart, below } of places) {
        const { traces, layout, summary, legend, numbers } = DRAW[figure.kind](figure, panel, chosen);
        plotly.react(chart, traces, layout, CONFIG);
        chart.setAttribute("aria-label", summary);
        const isOpen = below.querySelector("details")?.open ?? false;
        below.replaceChildren();
        if (legend?.length) below.append(legendOf(legend));
        if (numbers) {
          const details = make("details", { class: "numbers" }, make("summary", {}, "The numbers"), tableOf(numbers));
          details.open = isOpen;
          below.append(details);
        }
      }
    };
    drawn.set(holder, redraw);
    redraw();
  };

  const prepareBench = (holder) => {
    const bench = page.benchmarks[Number(holder.dataset.bench)];
    holder.replaceChildren();
    const rows = bench.rows.filter((row) => row.queries_per_second !== null);
    const batched = bench.rows.filter((row) => Object.keys(row.batches).length);
    const parts = [];
    const tintOf = (row) => swatch(bench.rows.indexOf(row), bench.rows.length);
    if (rows.length) parts.push(["Queries a second", () => ({
      traces: [{ type: "bar", orientation: "h", y: rows.map((row) => plain(row.name)), x: rows.map((row) => row.queries_per_second), marker: { color: rows.map(tintOf) },
        text: rows.map((row) => shownNumber(row.queries_per_second, 0)), textposition: "auto", cliponaxis: false, insidetextfont: { color: isDark() ? "#14171b" : "#ffffff" }, hovertemplate: "%{y}: %{x:,.0f} queries/s<extra></extra>" }],
      layout: layoutOf({ height: 70 + 30 * rows.length, bargap: 0.3, xaxis: { label: "queries a second" }, yaxis: { autorange: "reversed", showgrid: false } }),
      summary: "Queries a second. " + rows.map((row) => `${row.name}: ${shownNumber(row.queries_per_second, 0)}`).join("; ") + ".",
    })]);
    if (batched.length) parts.push(["Queries a second by the size of a batch", () => ({
      traces: batched.map((row) => ({ mode: "lines+markers", name: row.name, x: Object.keys(row.batches).map(Number), y: Object.values(row.batches), line: { color: tintOf(row), width: 2 }, marker: { size: 7 },
        hovertemplate: `${plain(row.name)}, %{x} a batch: %{y:,.0f} queries/s<extra></extra>` })),
      layout: layoutOf({ height: Math.max(300, 70 + 30 * rows.length), xaxis: { label: "queries a batch", type: "log", tickvals: [...new Set(batched.flatMap((row) => Object.keys(row.batches).map(Number)))] }, yaxis: { type: "log", label: "queries a second", tickformat: "~s" } }),
      legend: batched.map((row) => ({ name: row.name, symbol: "circle", tint: tintOf(row) })),
      summary: "Queries a second by the size of a batch. " + batched.map((row) => `${row.name}: ${Object.entries(row.batches).map(([size, speed]) => `${size}: ${shownNumber(speed, 0)}`).join(", ")}`).join("; ") + ".",
    })]);
    holder.classList.toggle("single", parts.length === 1);
    const places = parts.map(([title, build]) => {
      const chart = make("div", { role: "img" }), below = make("div");
      holder.append(make("div", { class: "plot" }, make("h4", {}, title), chart, below));
      return { build, chart, below };
    });
    const redraw = () => {
      for (const { build, chart, below } of places) {
        const { traces, layout, summary, legend } = build();
        plotly.react(chart, traces, layout, CONFIG);
        chart.setAttribute("aria-label", summary);
        below.replaceChildren(...(legend ? [legendOf(legend)] : []));
      }
    };
    drawn.set(holder, redraw);
    redraw();
  };

  const holders = [...document.querySelectorAll("[data-figure], [data-bench]")];
  const prepareAny = (holder) => {
    if (drawn.has(holder) || plotly === null) return;
    if (holder.dataset.figure) prepare(holder); else prepareBench(holder);
  };
  const drawAll = () => { for (const redraw of drawn.values()) redraw(); };
  const paint = () => { updateChips(); if (plotly !== null) drawAll(); };

  const bytesOf = (base64) => {
    if ("fromBase64" in Uint8Array) return Uint8Array.fromBase64(base64);
    const letters = atob(base64);
    const bytes = new Uint8Array(letters.length);
    for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
    return bytes;
  };
  const unpack = async (id) => {
    const packed = bytesOf(byId(id).textContent.trim());
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const sayWhyNot = (why) => {
    for (const holder of holders) holder.replaceChildren(make("p", { class: "missing" }, `The figures cannot be drawn here (${why}); the table has their numbers.`));
  };
  const loadPlotly = async () => {
    if (!("DecompressionStream" in window)) { sayWhyNot("this browser is older than 2023"); return; }
    const script = make("script");
    script.textContent = await unpack("plotting-library");
    document.head.append(script);
    if (!window.Plotly) { sayWhyNot("the plotting library did not start"); return; }
    plotly = window.Plotly;
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { prepareAny(entry.target); watcher.unobserve(entry.target); }
    }, { rootMargin: "400px" });
    holders.forEach((holder) => watcher.observe(holder));
  };
  // what is not in view is drawn when there is nothing else to do, so that links find their places
  const drawRest = () => {
    const next = holders.find((holder) => !drawn.has(holder));
    if (plotly === null) return;
    if (next === undefined) { root.dataset.drawn = "true"; return; }
    prepareAny(next);
    setTimeout(drawRest, 30);
  };

  addEventListener("beforeprint", () => { printing = true; holders.forEach(prepareAny); drawAll(); });
  addEventListener("afterprint", () => { printing = false; paint(); });

  // ------------------------------------------------------------ tables

  const valueOf = (row, column) => row.children[column].dataset.value ?? row.children[column].textContent;
  const sortBy = (table, column, heading) => {
    const descending = heading.getAttribute("aria-sort") === "descending" ? false
      : heading.getAttribute("aria-sort") === "ascending" ? true : heading.classList.contains("n");
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    const isNumeric = rows.every((row) => valueOf(row, column) === "" || Number.isFinite(Number(valueOf(row, column))));
    const sign = descending ? -1 : 1;
    rows.sort((a, b) => {
      const [one, two] = [valueOf(a, column), valueOf(b, column)];
      if (one === "" || two === "") return (one === "") - (two === ""); // undefined is last either way
      return sign * (isNumeric ? Number(one) - Number(two) : one.localeCompare(two, "en", { numeric: true }));
    });
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = make("button", { type: "button" }, ...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sortBy(table, column, heading));
    });
  }
  const filterTable = () => {
    const words = byId("table-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const rows = byId("table").tBodies[0].rows;
    for (const row of rows) {
      const text = [...row.children].slice(0, 3).map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !visible.has(row.dataset.checkpoint) || !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    byId("table-count").textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  };
  byId("table-filter").addEventListener("input", filterTable);

  // ------------------------------------------------------------ attribution

  const chooseAttribution = byId("attribution-variant");
  if (chooseAttribution) {
    const parts = [...document.querySelectorAll(".attribution")];
    const choose = () => parts.forEach((part) => { part.hidden = part.dataset.number !== chooseAttribution.value; });
    chooseAttribution.addEventListener("change", choose);
    choose();
  }

  // ------------------------------------------------------------ failures

  const picture = (item, what) => {
    if (item.image !== undefined) {
      return make("img", { class: "thumb", src: page.thumbnails[item.image], alt: `${what}: ${item.id}`, loading: "lazy", decoding: "async" });
    }
    return make("span", { class: "thumb no-thumb" }, item.missing === undefined ? item.id : `${item.id}: ${page.reasons[item.missing]}`);
  };
  const marked = (text, words) => {
    const parts = make("span");
    let rest = text;
    for (const word of words) {
      const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      const found = new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "iu").exec(rest);
      if (!found) continue;
      parts.append(rest.slice(0, found.index), make("mark", {}, found[0]));
      rest = rest.slice(found.index + found[0].length);
    }
    parts.append(rest);
    return parts;
  };
  const swaps = (words) => (words.length
    ? make("span", { class: "swap" }, "replaced: ", ...words.flatMap(([word, target], number) => [number ? ", " : "", make("s", {}, word), " → ", target]))
    : null);
  const answer = (item, title, isWrong, words) => {
    const body = item.text !== undefined ? marked(item.text, isWrong ? words.map((pair) => pair[1]) : [])
      : item.image !== undefined || item.missing !== undefined ? picture(item, title) : make("span", {}, item.id);
    return make("div", { class: isWrong ? "answer wrong" : "answer" }, make("h3", {}, title), body, isWrong && item.text !== undefined ? swaps(words) : null);
  };
  const shownRank = (rank) => shownNumber(rank, Number.isInteger(rank) ? 0 : 1);
  const cardOf = (failure) => {
    const { asked, original, truth, winner, words } = failure;
    const isText = asked.text !== undefined;
    const query = isText
      ? make("blockquote", {}, marked(asked.text, original ? words.map((pair) => pair[1]) : []), original ? make("span", { class: "was" }, `was: ${original.text}`) : null)
      : picture(asked, "The query");
    const side = make("div", {}, make("h3", {}, isText ? "Asked" : `Asked: ${asked.id}`), isText ? query : null);
    const isPictures = truth.text === undefined;
    const answers = [
      answer(truth, isPictures ? "The right image" : "The best true caption", false, []),
      answer(winner, `Came first: ${KINDS[failure.kind]}`, true, original ? [] : words),
    ];
    return make("li", { class: "card" },
      make("header", {}, make("span", {}, make("b", {}, failure.name), ` · ${page.names[failure.checkpoint]} · ${failure.direction}${failure.distractors ? ` · ${shownNumber(failure.distractors, 0)} distractors` : ""}`),
        make("span", { class: "margin", title: "The margin: how far the wrong answer scores above the best right one" }, failure.margin === null ? "none scored" : `+${failure.margin.toFixed(3)}`)),
      isText ? make("div", { class: "asked" }, side) : make("div", { class: "asked" }, query, make("div", { class: "answers", style: "padding:0" }, ...answers)),
      isText ? make("div", { class: isPictures ? "answers pictures" : "answers" }, ...answers) : null,
      make("p", { class: "ranks" }, `Rank of the best right answer: ${shownRank(failure.before)} → ${shownRank(failure.rank)}`));
  };
  const filters = byId("failure-filters");
  if (filters) {
    const fields = filters.elements;
    const option = (value, text) => make("option", { value }, text);
    const used = (name) => new Set(page.failures.map((failure) => failure[name]));
    const addOptions = (field, names, numbers) => names.forEach((name, number) => { if (numbers.has(number)) fields[field].append(option(String(number), name)); });
    addOptions("variant", page.variants, used("variant"));
    addOptions("checkpoint", page.names, used("checkpoint"));
    for (const kind of used("kind")) fields.kind.append(option(kind, KINDS[kind]));
    const textsOf = (failure) => [failure.asked, failure.original, failure.truth, failure.winner].filter(Boolean).map((item) => item.text ?? "")
      .concat(failure.words.flat()).join(" ").toLowerCase();
    const texts = page.failures.map(textsOf);
    let limit = CARDS_AT_ONCE;
    const show = () => {
      const word = fields.word.value.trim().toLowerCase();
      const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      const pattern = word ? new RegExp(`(?<![\\p{L}\\p{N}])${escaped}`, "u") : null;
      const found = page.failures.filter((failure, number) =>
        ["variant", "checkpoint", "kind"].every((name) => fields[name].value === "" || String(failure[name]) === fields[name].value) &&
        (pattern === null || pattern.test(texts[number])));
      const widest = failure => (failure.margin === null ? Number.MAX_VALUE : failure.margin);
      found.sort((a, b) => a.place - b.place || widest(b) - widest(a));
      byId("failure-cards").replaceChildren(...found.slice(0, limit).map(cardOf));
      byId("failure-count").textContent = `${shownNumber(found.length, 0)} of ${shownNumber(page.failures.length, 0)} failures`;
      byId("more-failures").hidden = found.length <= limit;
    };
    filters.addEventListener("input", () => { limit = CARDS_AT_ONCE; show(); });
    filters.addEventListener("submit", (event) => event.preventDefault());
    byId("more-failures").addEventListener("click", () => { limit += CARDS_AT_ONCE; show(); });
    show();
  }

  // ------------------------------------------------------------ begin

  const links = new Map([...document.querySelectorAll(".top nav a")].map((link) => [link.hash.slice(1), link]));
  const spy = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(entry.target.id);
      link.setAttribute("aria-current", "true");
      link.parentElement.scrollTo({ left: link.offsetLeft - link.parentElement.offsetLeft - 40 }); // on a phone
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of links.keys()) spy.observe(byId(id));

  updateChips();
  filterTable();
  requestAnimationFrame(() => setTimeout(() => loadPlotly().then(() => { root.dataset.ready = "true"; setTimeout(drawRest, 100); }, (error) => { sayWhyNot(error); throw error; }), 0));
})();
