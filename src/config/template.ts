/** A commented configuration file with all options and their defaults, derived from declarations. */
import { variableOf } from "./environment.ts";
import { defaultValue } from "./load.ts";
import type { OptionSpec, SectionSpec } from "./types.ts";
import { acceptedText, tomlText } from "./values.ts";

/** TOML in which every option is commented out; each line that is put to use is valid as it stands. */
export function configTemplate(core: readonly OptionSpec[], sections: readonly SectionSpec[]): string {
  const head = [
    "# Configuration of lockd. An option that is commented out shows its default.",
    "# Flags override variables of the environment, which override this file.",
    "# `lockd config check` validates it, `lockd config show` tells where each value comes from.",
  ].join("\n");
  const parts = [head, ...optionTexts(core)];
  for (const { name, options } of sections) {
    const texts = optionTexts(options);
    if (texts.length > 0) parts.push(`[${name}]`, ...texts);
  }
  return `${parts.join("\n\n")}\n`;
}

function optionTexts(specs: readonly OptionSpec[]): string[] {
  return specs.filter((spec) => spec.noFile !== true).map(optionText);
}

function optionText(spec: OptionSpec): string {
  const ways = [variableOf(spec), spec.noFlag === true ? null : `--${spec.name}`].filter((way) => way !== null);
  const text = tomlText(spec, defaultValue(spec));
  const lines = [`${spec.help}`, `accepted: ${acceptedText(spec)}`];
  if (spec.defaultText !== undefined) lines.push(`default: ${spec.defaultText}`);
  if (ways.length > 0) lines.push(`also: ${ways.join(", ")}`);
  const comments = lines.flatMap((line) => line.split("\n")).map((line) => `# ${line}`);
  return [...comments, text === null ? `# ${spec.name} is not set by default` : `#${spec.name} = ${text}`].join("\n");
}
