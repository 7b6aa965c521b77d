/** What a test leaves behind is undone after it, in reverse order, whatever became of the test. */
const undo: (() => void | Promise<void>)[] = [];

/** For `afterEach` of every file that uses `later`: a hook set here would serve the first of them only. */
export async function cleanUp(): Promise<void> {
  const errors: unknown[] = [];
  for (const step of undo.splice(0).reverse()) {
    try {
      await step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, "cleaning up failed");
}

export function later(step: () => void | Promise<void>): void {
  undo.push(step);
}
