/**
 * Opens the C library whatever its name on this system is. Owns the list of names; knows none of the
 * functions that its callers declare.
 */
import { dlopen, type FFIFunction, type Library } from "bun:ffi";

/** glibc, musl by architecture, macOS: the first that can be opened is the one the process runs on. */
const LIBC_NAMES = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1", "libSystem.B.dylib"];

/** The declared functions of the C library. Throws the loader's error when none could be opened. */
export function openLibc<Symbols extends Record<string, FFIFunction>>(symbols: Symbols): Library<Symbols> {
  let firstError: unknown;
  for (const name of LIBC_NAMES) {
    try {
      return dlopen(name, symbols);
    } catch (error) {
      firstError ??= error;
    }
  }
  throw firstError;
}
