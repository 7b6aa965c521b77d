/**
 * Metrics of the process itself: memory, processor time, descriptors and how late the event loop ran.
 * The first four have the names that Prometheus clients in every language use.
 */
import { readdirSync } from "node:fs";
import type { Clock, Timer, Timers } from "../clock/clock.ts";
import type { MetricsRegistry } from "./metrics.ts";

/** Often enough to see a pause of 50 ms, seldom enough to cost nothing. */
const BEAT_MS = 20;

/** Registers the metrics; the timer that it returns measures the event loop until it is cancelled. */
export function addProcessMetrics(metrics: MetricsRegistry, clock: Clock, timers: Timers): Timer {
  const startSeconds = (clock.wallMs() - process.uptime() * 1000) / 1000;
  metrics.gaugeFrom("process_resident_memory_bytes", "Resident memory of the process.", () => process.memoryUsage.rss());
  metrics.counterFrom("process_cpu_seconds_total", "User and system processor time of the process.", () => {
    const usage = process.cpuUsage();
    return (usage.user + usage.system) / 1e6;
  });
  metrics.gaugeFrom("process_open_fds", "Open file descriptors of the process.", openDescriptors);
  metrics.gaugeFrom("process_start_time_seconds", "Start of the process, seconds since 1970.", () => startSeconds);

  let expectedMs = clock.monotonicMs() + BEAT_MS;
  let worstMs = 0;
  metrics.gaugeFrom("lockd_event_loop_delay_max_seconds", "Longest delay of the event loop since the last scrape.", () => {
    // a pause that lasts until the scrape itself has not been seen by the beat yet
    const seconds = Math.max(worstMs, clock.monotonicMs() - expectedMs, 0) / 1000;
    worstMs = 0;
    return seconds;
  });
  return timers.every(BEAT_MS, () => {
    const nowMs = clock.monotonicMs();
    worstMs = Math.max(worstMs, nowMs - expectedMs);
    expectedMs = nowMs + BEAT_MS;
  });
}

/** The directory that is read has a descriptor of its own while it is read. */
const openDescriptors = (): number => readdirSync("/proc/self/fd").length - 1;
