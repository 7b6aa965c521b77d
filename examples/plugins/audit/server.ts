/** The plugin inside a server: counts events, keeps the counts, and answers on the wire and over HTTP. */
import { type Host, LockdError, type PluginInstance, readText } from "lockd:api";
import type { LockEvent, LocksService } from "lockd:lock";
import { counted, isBody, readTotals, type Totals } from "./totals.ts";

/** Counts are written together this often, in one batch with the id of the last event that they hold. */
const SAVE_MS = 1_000;
/** Key of the last event counted; objects have keys of another form. */
const POSITION = "position";
const OBJECT = "object:";
/** An answer must fit a frame: names have up to 1,024 bytes. */
const ENTRIES_MAX = 1_000;

export function setupAudit(host: Host): PluginInstance {
  // Everything the plugin does to the outside goes through the host. `setup` only registers: nothing is
  // served before all plugins have started, and a plugin that takes longer than 10 seconds here is given up.
  const locks = host.use<LocksService>("lock");
  const objectsMax = Number(host.config["audit-objects-max"]);
  const totals = new Map<string, Totals>();
  const unsaved = new Set<string>();
  let through = 0;
  let savedThrough = 0;

  const events = host.metrics.counter("lockd_audit_events_total", "Lock events that were counted.");
  host.metrics.gaugeFrom("lockd_audit_objects", "Objects that have counts.", () => totals.size);

  function count(event: LockEvent): void {
    through = event.id;
    const before = totals.get(event.object);
    if (before === undefined && totals.size >= objectsMax) return;
    const after = counted(before ?? { granted: 0, lost: 0, heldMs: 0 }, event);
    if (after === null) return;
    totals.set(event.object, after);
    unsaved.add(event.object);
    events.add();
  }

  async function save(): Promise<void> {
    if (through === savedThrough) return;
    const objects = [...unsaved];
    const changes = objects.map((object) => ({ key: OBJECT + object, value: encode({ ...totals.get(object) }) }));
    unsaved.clear();
    const saved = through;
    try {
      // all of a batch is on disk or nothing: after a crash counting goes on exactly where the counts end
      await host.namespace.commit({ changes: [...changes, { key: POSITION, value: encode({ through: saved }) }] });
      savedThrough = saved;
    } catch (error) {
      // such as a full disk: the next save writes them with what has happened since
      for (const object of objects) unsaved.add(object);
      throw error;
    }
  }

  // A message of its own. The parser gets what came over the wire, which may be anything; what it throws,
  // or the handler, is answered with an ERROR. Who may see an object's locks may see its counts.
  host.messages.on(
    "AUDIT",
    (body) => ({ prefix: readText(body, "prefix", { bytesMax: 1_024, absent: "" }), after: readText(body, "after", { bytesMax: 1_024, absent: "" }) }),
    (connection, id, { prefix, after }) => {
      const { principal } = connection.identity;
      const seen = [...totals]
        .filter(([object]) => object.startsWith(prefix) && object > after && host.access.allows(principal, "list", object))
        .sort(([a], [b]) => (a < b ? -1 : 1));
      const entries = seen.slice(0, ENTRIES_MAX).map(([object, counts]) => ({ object, ...counts }));
      connection.send("AUDITED", id, { entries, next: seen.length > ENTRIES_MAX ? (entries.at(-1)?.object ?? null) : null });
    },
  );

  // Over HTTP nobody says who they are: a route shows what everybody may see who can reach --http.
  host.http.route("GET", "/audit", () => Response.json({ objects: totals.size, through }));

  let saving: ReturnType<Host["timers"]["every"]> | null = null;
  let stopEvents = (): void => undefined;

  return {
    start() {
      for (const [key, value] of host.namespace.records()) {
        const record = decode(value);
        if (key.startsWith(OBJECT)) totals.set(key.slice(OBJECT.length), readTotals(record));
        else through = Number(record["through"]);
      }
      savedThrough = through;
      // the lock plugin has read its history by now: those it depends on start before a plugin does
      const subscription = locks.subscribe(count, { from: through + 1 });
      stopEvents = () => subscription.stop();
      if (subscription.firstId > through + 1) host.logger.warn("audit-gap", { from: through + 1, to: subscription.firstId - 1 });
      // a plugin must not leave a promise that may reject without a handler
      saving = host.timers.every(SAVE_MS, () => void save().catch((error: unknown) => host.logger.error("audit-save-failed", { error: String(error) })));
    },
    async stop() {
      stopEvents();
      saving?.cancel();
      await save();
    },
    describe: () => [`${totals.size} objects counted through event ${through}`],
  };
}

const encode = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

function decode(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
  if (!isBody(value)) throw new LockdError("corrupt", "read audit counts: a record is no object");
  return value;
}
