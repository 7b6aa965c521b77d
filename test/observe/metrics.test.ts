import { describe, expect, test } from "bun:test";
import { LockdError } from "../../src/errors.ts";
import { FakeClock } from "../../src/clock/fake.ts";
import { MetricsRegistry } from "../../src/observe/metrics.ts";
import { addProcessMetrics } from "../../src/observe/process-metrics.ts";

/** `name{labels} value` lines by name and labels. */
function samples(metrics: MetricsRegistry): Map<string, string> {
  const lines = metrics.render().split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), line.slice(line.lastIndexOf(" ") + 1)]));
}

describe("exposition", () => {
  test("has families sorted by name, each with its help and type once", () => {
    const metrics = new MetricsRegistry();
    metrics.gauge("lockd_b", "Second.").set(1.5);
    metrics.counter("lockd_a_total", "First\nand \\ more.", { mode: "shared" }).add();
    metrics.counter("lockd_a_total", "First\nand \\ more.", { mode: "exclusive" }).add(2);
    expect(metrics.render()).toBe(
      "# HELP lockd_a_total First\\nand \\\\ more.\n# TYPE lockd_a_total counter\n" +
        'lockd_a_total{mode="shared"} 1\nlockd_a_total{mode="exclusive"} 2\n' +
        "# HELP lockd_b Second.\n# TYPE lockd_b gauge\nlockd_b 1.5\n",
    );
  });

  test("escapes label values, and sorts labels by name", () => {
    const metrics = new MetricsRegistry();
    metrics.gauge("lockd_x", "X.", { zone: 'a"b\\c\nd', area: "" }).set(1);
    expect([...samples(metrics).keys()]).toEqual(['lockd_x{area="",zone="a\\"b\\\\c\\nd"}']);
  });

  test("counts a histogram's buckets cumulatively, a bound included", () => {
    const metrics = new MetricsRegistry();
    const waits = metrics.histogram("lockd_wait_seconds", "W.", [0.1, 1], { mode: "shared" });
    for (const value of [0.05, 0.1, 0.5, 7, Number.NaN]) waits.observe(value);
    expect(samples(metrics)).toEqual(
      new Map([
        ['lockd_wait_seconds_bucket{mode="shared",le="0.1"}', "2"],
        ['lockd_wait_seconds_bucket{mode="shared",le="1"}', "3"],
        ['lockd_wait_seconds_bucket{mode="shared",le="+Inf"}', "4"],
        ['lockd_wait_seconds_sum{mode="shared"}', "7.65"],
        ['lockd_wait_seconds_count{mode="shared"}', "4"],
      ]),
    );
  });

  test("reads computed values at the scrape, and a failing one does not spoil the others", () => {
    const metrics = new MetricsRegistry();
    let value = 1;
    metrics.gaugeFrom("lockd_a", "A.", () => value);
    metrics.gaugeFrom("lockd_b", "B.", () => {
      throw new Error("no");
    });
    metrics.gaugeFrom("lockd_c", "C.", () => Number.POSITIVE_INFINITY);
    value = 2;
    expect(samples(metrics)).toEqual(new Map([["lockd_a", "2"], ["lockd_b", "NaN"], ["lockd_c", "+Inf"]]));
  });
});

describe("registration", () => {
  test("of the same series gives the same one", () => {
    const metrics = new MetricsRegistry();
    metrics.counter("lockd_a_total", "A.", { x: "1", y: "2" }).add();
    metrics.counter("lockd_a_total", "A.", { y: "2", x: "1" }).add();
    metrics.histogram("lockd_h", "H.", [1]).observe(1);
    metrics.histogram("lockd_h", "H.", [1]).observe(1);
    expect(samples(metrics).get('lockd_a_total{x="1",y="2"}')).toBe("2");
    expect(samples(metrics).get("lockd_h_count")).toBe("2");
  });

  test("a counter never falls", () => {
    const metrics = new MetricsRegistry();
    const counter = metrics.counter("lockd_a_total", "A.");
    for (const amount of [3, -1, Number.NaN, Number.POSITIVE_INFINITY]) counter.add(amount);
    expect(samples(metrics).get("lockd_a_total")).toBe("3");
  });

  const refusals: [string, (metrics: MetricsRegistry) => unknown, string][] = [
    ["another type", (metrics) => metrics.gauge("lockd_a_total", "A."), "already as counter"],
    ["another help text", (metrics) => metrics.counter("lockd_a_total", "B."), "another help text"],
    ["other labels", (metrics) => metrics.counter("lockd_a_total", "A.", { x: "1" }), "with the labels {}"],
    ["a computed value on top", (metrics) => metrics.counterFrom("lockd_a_total", "A.", () => 1), "already in another way"],
    ["a computed value twice", (metrics) => metrics.gaugeFrom("lockd_from", "F.", () => 2), "already"],
    ["other bounds", (metrics) => metrics.histogram("lockd_h", "H.", [1, 3]), "other bounds"],
    ["bounds that fall", (metrics) => metrics.histogram("lockd_i", "I.", [2, 1]), "rise"],
    ["no bounds", (metrics) => metrics.histogram("lockd_i", "I.", []), "rise"],
    ["the label le", (metrics) => metrics.histogram("lockd_i", "I.", [1], { le: "x" }), "le"],
    ["a foreign name", (metrics) => metrics.gauge("locks", "L."), "lockd_"],
    ["a name with a space", (metrics) => metrics.gauge("lockd_a b", "L."), "lockd_"],
    ["a bad label name", (metrics) => metrics.gauge("lockd_l", "L.", { "a-b": "1" }), "a-b"],
  ];
  test.each(refusals)("with %s is a configuration error that names the metric", (_, register, reason) => {
    const metrics = new MetricsRegistry();
    metrics.counter("lockd_a_total", "A.");
    metrics.histogram("lockd_h", "H.", [1, 2]);
    metrics.gaugeFrom("lockd_from", "F.", () => 1);
    const before = metrics.render();
    let error: unknown;
    try {
      register(metrics);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(LockdError);
    expect(error).toMatchObject({ code: "config", message: expect.stringContaining(reason) });
    expect(metrics.render()).toBe(before);
  });
});

describe("metrics of the process", () => {
  test("are plausible", () => {
    const metrics = new MetricsRegistry();
    const clock = new FakeClock({ wallMs: Date.now() });
    addProcessMetrics(metrics, clock, clock);
    const values = samples(metrics);
    expect(Number(values.get("process_resident_memory_bytes"))).toBeGreaterThan(10e6);
    expect(Number(values.get("process_cpu_seconds_total"))).toBeGreaterThan(0);
    expect(Number(values.get("process_open_fds"))).toBeGreaterThanOrEqual(3);
    expect(Math.abs(Number(values.get("process_start_time_seconds")) - Date.now() / 1000)).toBeLessThan(3600);
  });

  test("the longest delay of the event loop is told once, and includes one that still lasts", () => {
    const metrics = new MetricsRegistry();
    const clock = new FakeClock();
    const timer = addProcessMetrics(metrics, clock, clock);
    const delay = (): number => Number(samples(metrics).get("lockd_event_loop_delay_max_seconds"));
    clock.advance(1000);
    expect(delay()).toBe(0);
    clock.pause(500);
    clock.advance(100);
    expect(delay()).toBeCloseTo(0.48, 3);
    clock.advance(100);
    expect(delay()).toBe(0);
    timer.cancel();
    clock.advance(200);
    expect(delay()).toBeGreaterThan(0.1);
  });
});
