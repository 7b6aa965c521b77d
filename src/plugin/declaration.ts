/**
 * Whether something that a file exports is a plugin: the shape of what it declares, field by field, with
 * the path of the first bad one. Looks only at the declaration and runs nothing of it.
 */
import * as v from "valibot";
import { LockdError } from "../errors.ts";
import { checkDeclaration, pluginLabel, pluginRefused } from "./graph.ts";
import { API_VERSION, type Plugin } from "./types.ts";

const text = v.pipe(v.string(), v.nonEmpty("a text that is not empty"));
const texts = v.array(text);
const flag = v.optional(v.boolean());
const isFunction = v.custom<() => unknown>((value) => typeof value === "function", "a function");

const optionName = v.pipe(v.string(), v.regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/, "lower-case words with single dashes between them"));

/** What all types of options share; `short` is for the flags of one command. */
const common = {
  name: optionName,
  help: text,
  default: v.optional(v.union([v.string(), v.number(), v.boolean(), v.array(v.string()), v.null(), isFunction])),
  defaultText: v.optional(v.string()),
  noFlag: flag,
  noEnvironment: flag,
  noFile: flag,
  valueName: v.optional(text),
  short: v.optional(v.pipe(v.string(), v.regex(/^[a-zA-Z]$/, "one letter"))),
};
const word = v.optional(text);

const option = v.variant("type", [
  v.strictObject({ ...common, type: v.literal("string"), pattern: v.optional(v.instance(RegExp)), accepted: v.optional(text) }),
  v.strictObject({ ...common, type: v.literal("choice"), choices: v.pipe(texts, v.minLength(1, "a list that is not empty")) }),
  v.strictObject({ ...common, type: v.literal("boolean") }),
  v.strictObject({ ...common, type: v.literal("integer"), min: v.number(), max: v.number() }),
  v.strictObject({ ...common, type: v.literal("duration"), minMs: v.number(), maxMs: v.number(), word }),
  v.strictObject({ ...common, type: v.literal("address"), word }),
  v.strictObject({ ...common, type: v.literal("list"), of: v.picklist(["string", "address", "path"]) }),
  v.strictObject({ ...common, type: v.literal("size"), min: v.number(), max: v.number() }),
  v.strictObject({ ...common, type: v.literal("tables"), accepted: text, check: isFunction }),
  v.strictObject({ ...common, type: v.literal("path"), word }),
]);

const positional = v.strictObject({
  name: text,
  help: v.string(),
  arity: v.picklist(["one", "optional", "some", "any"]),
  complete: v.optional(v.union([texts, v.strictObject({ load: isFunction })])),
});

const commandFields = {
  name: optionName,
  summary: text,
  group: v.optional(text),
  description: v.optional(v.string()),
  positionals: v.optional(v.array(positional)),
  flags: v.optional(v.array(option)),
  options: v.optional(texts),
  childCommand: v.optional(v.picklist(["required", "none"])),
  examples: v.optional(v.array(v.strictTuple([v.string(), v.string()]))),
  hidden: flag,
  load: v.optional(isFunction),
};
const subcommand: v.GenericSchema<unknown> = v.strictObject({ ...commandFields, subcommands: v.optional(v.array(v.lazy(() => subcommand))) });

const plugin = v.strictObject({
  name: text,
  version: text,
  requires: v.strictObject({ lockd: text, plugins: v.optional(texts) }),
  config: v.optional(v.array(option)),
  commands: v.optional(v.array(subcommand)),
  setup: v.optional(isFunction),
});

/** What must be read before it is known whether the rest is of this version of the interface. */
const head = v.looseObject({ name: text, version: text, requires: v.looseObject({ lockd: text, plugins: v.optional(texts) }) });

const EXPORT_HINT = "it ends with: export default definePlugin({ name, version, requires, … })";

/** The value as a plugin. Throws LockdError `config` that names the path, and the plugin once that is known. */
export function checkedPlugin(value: unknown, path: string): Plugin {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw pluginRefused(path, value === undefined ? "it has no default export" : "its default export is not a plugin", EXPORT_HINT);
  }
  const declared = v.safeParse(head, value, { abortEarly: true });
  if (!declared.success) throw pluginRefused(path, `its default export is not a plugin: ${problemOf(declared.issues[0])}`, EXPORT_HINT);
  const { name, version, requires } = declared.output;
  const label = pluginLabel({ name }, path);
  const { lockd, plugins = [] } = requires;
  checkDeclaration({ name, version, requires: { lockd, plugins } }, API_VERSION, label);
  const whole = v.safeParse(plugin, value, { abortEarly: true });
  if (!whole.success) throw pluginRefused(label, problemOf(whole.issues[0]), `docs/plugins.md describes the interface, version ${API_VERSION}`);
  if (!isPlugin(value)) throw new LockdError("failed", `load plugin ${label}: it was accepted and is none`);
  return value;
}

/** Narrows what the schema has accepted, without a copy: a plugin may use `this`. */
const isPlugin = (value: object): value is Plugin => v.is(plugin, value);

function problemOf(issue: v.BaseIssue<unknown>): string {
  const where = v.getDotPath(issue) ?? "the plugin";
  if (issue.type === "strict_object" && issue.expected === "never") return `${where} is no field of the interface`;
  if (issue.received === "undefined") return `${where} is missing`;
  const expected = issue.type === "custom" || issue.type === "regex" || issue.type.endsWith("empty") || issue.type === "min_length" ? issue.message : (issue.expected ?? "another value");
  return `${where} is not accepted, expected ${expected}`;
}
