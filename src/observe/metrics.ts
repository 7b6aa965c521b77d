/**
 * The registry of metrics and their exposition in Prometheus' text format (version 0.0.4). Owns names,
 * labels and values; knows nothing of HTTP or of what is measured.
 */
import { LockdError } from "../errors.ts";
import type { Counter, Gauge, Histogram, Metrics } from "./types.ts";

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

type Kind = "counter" | "gauge" | "histogram";
type Labels = Readonly<Record<string, string>>;

interface Family {
  kind: Kind;
  help: string;
  /** sorted names, the same for all series of a family */
  labelNames: string;
  series: Map<string, Series>;
}

interface Series {
  /** lines of the exposition, without the family's head */
  render(name: string, labels: string): string;
}

const NAME = /^(lockd|process)(_[a-z0-9]+)+$/;
const LABEL_NAME = /^[a-z][a-z0-9_]*$/;

export class MetricsRegistry implements Metrics {
  readonly #families = new Map<string, Family>();

  counter(name: string, help: string, labels: Labels = {}): Counter {
    return this.#series("counter", name, help, labels, CounterSeries, () => new CounterSeries());
  }

  gauge(name: string, help: string, labels: Labels = {}): Gauge {
    return this.#series("gauge", name, help, labels, GaugeSeries, () => new GaugeSeries());
  }

  gaugeFrom(name: string, help: string, read: () => number, labels: Labels = {}): void {
    this.#addFrom("gauge", name, help, read, labels);
  }

  /** A counter whose value is kept elsewhere, by the kernel say, and read when it is scraped. */
  counterFrom(name: string, help: string, read: () => number, labels: Labels = {}): void {
    this.#addFrom("counter", name, help, read, labels);
  }

  histogram(name: string, help: string, bounds: readonly number[], labels: Labels = {}): Histogram {
    const rising = bounds.every((bound, index) => Number.isFinite(bound) && (index === 0 || bound > (bounds[index - 1] ?? bound)));
    if (bounds.length === 0 || !rising) throw refused(name, "its bounds are not finite numbers that rise");
    if ("le" in labels) throw refused(name, "`le` is the label of its buckets");
    const series = this.#series("histogram", name, help, labels, HistogramSeries, () => new HistogramSeries(bounds));
    if (!series.hasBounds(bounds)) throw refused(name, "it is registered already with other bounds");
    return series;
  }

  /** All families, sorted by name. A value that cannot be read is NaN; it does not spoil the others. */
  render(): string {
    let text = "";
    for (const [name, family] of [...this.#families].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      text += `# HELP ${name} ${escapeHelp(family.help)}\n# TYPE ${name} ${family.kind}\n`;
      for (const [labels, series] of family.series) text += series.render(name, labels);
    }
    return text;
  }

  #addFrom(kind: "counter" | "gauge", name: string, help: string, read: () => number, labels: Labels): void {
    const series = new ReadSeries(read);
    const kept = this.#series(kind, name, help, labels, ReadSeries, () => series);
    if (kept !== series) throw refused(name, "the same series is registered already");
  }

  /** The series of these labels, made when it is new; the same one when it is asked for again. */
  #series<S extends Series>(
    kind: Kind,
    name: string,
    help: string,
    labels: Labels,
    type: abstract new (...parameters: never[]) => S,
    make: () => S,
  ): S {
    if (!NAME.test(name)) throw refused(name, "a name is lockd_ and then lower-case words, digits and underscores");
    const labelNames = Object.keys(labels).toSorted();
    for (const label of labelNames) {
      if (!LABEL_NAME.test(label)) throw refused(name, `label name ${JSON.stringify(label)} is not lower-case letters, digits and underscores`);
    }
    let family = this.#families.get(name);
    if (family === undefined) {
      family = { kind, help, labelNames: labelNames.join(","), series: new Map() };
      this.#families.set(name, family);
    }
    if (family.kind !== kind) throw refused(name, `it is registered already as ${family.kind}`);
    if (family.help !== help) throw refused(name, "it is registered already with another help text");
    if (family.labelNames !== labelNames.join(",")) throw refused(name, `it is registered already with the labels {${family.labelNames}}`);
    const key = labelNames.map((label) => `${label}="${escapeLabel(labels[label] ?? "")}"`).join(",");
    const found = family.series.get(key);
    if (found === undefined) {
      const made = make();
      family.series.set(key, made);
      return made;
    }
    if (!(found instanceof type)) throw refused(name, "the same series is registered already in another way");
    return found;
  }
}

class CounterSeries implements Counter, Series {
  #value = 0;

  /** A counter never falls: anything but a finite amount of zero or more is left out. */
  add(amount = 1): void {
    if (amount >= 0 && Number.isFinite(amount)) this.#value += amount;
  }

  render(name: string, labels: string): string {
    return sample(name, labels, this.#value);
  }
}

class GaugeSeries implements Gauge, Series {
  #value = 0;

  set(value: number): void {
    this.#value = value;
  }

  render(name: string, labels: string): string {
    return sample(name, labels, this.#value);
  }
}

class ReadSeries implements Series {
  readonly #read: () => number;

  constructor(read: () => number) {
    this.#read = read;
  }

  render(name: string, labels: string): string {
    let value = Number.NaN;
    try {
      value = this.#read();
    } catch {
      // NaN says that there is no value; the scrape goes on
    }
    return sample(name, labels, value);
  }
}

class HistogramSeries implements Histogram, Series {
  readonly #bounds: readonly number[];
  /** observations by bucket, not cumulative; the last is above all bounds */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = [...bounds];
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    if (Number.isNaN(value)) return;
    let index = this.#bounds.findIndex((bound) => value <= bound);
    if (index < 0) index = this.#bounds.length;
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    this.#sum += value;
  }

  hasBounds(bounds: readonly number[]): boolean {
    return bounds.length === this.#bounds.length && bounds.every((bound, index) => bound === this.#bounds[index]);
  }

  render(name: string, labels: string): string {
    let text = "";
    let total = 0;
    for (const [index, count] of this.#counts.entries()) {
      total += count;
      const bound = `le="${formatValue(this.#bounds[index] ?? Number.POSITIVE_INFINITY)}"`;
      text += sample(`${name}_bucket`, labels === "" ? bound : `${labels},${bound}`, total);
    }
    return text + sample(`${name}_sum`, labels, this.#sum) + sample(`${name}_count`, labels, total);
  }
}

const sample = (name: string, labels: string, value: number): string =>
  `${name}${labels === "" ? "" : `{${labels}}`} ${formatValue(value)}\n`;

function formatValue(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const escapeLabel = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');

const refused = (name: string, reason: string): LockdError =>
  new LockdError("config", `register metric ${JSON.stringify(name)}: ${reason}`);
