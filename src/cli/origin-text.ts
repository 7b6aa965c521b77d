/** Where a value of the configuration came from, in words. */
import type { OptionOrigin } from "../config/types.ts";

export function originText(origin: OptionOrigin): string {
  switch (origin.kind) {
    case "default":
      return "default";
    case "file":
      return origin.line === undefined ? origin.path : `${origin.path}:${origin.line}`;
    case "environment":
      return origin.variable;
    case "flag":
      return origin.flag;
  }
}
